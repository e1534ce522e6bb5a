"""What a job's checkpoint was made for: beside it, so that a job notices by name where it no longer
fits. Spark itself would go on with the old number of partitions, and with the state of old code."""

from typing import Any

import orjson

from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, names_in, remove, replace

# of what the state stores hold; raised where an older one could not be read
_FORMAT = 5

Identity = dict[str, Any]


def identity(settings: JobSettings, code: dict[str, str]) -> Identity:
    """`code`: fingerprints, by the name of the entity or aggregate."""
    return {
        "format": _FORMAT,
        "state_partitions": settings.state_partitions,
        "code": code,
    }


def why_not(checkpoint: CheckpointFolder, wanted: Identity) -> str | None:
    """Why the job cannot go on from it; None where it can."""
    # a query that has not finished its first batch has yet to begin
    if not any(name.isdecimal() for name in names_in(checkpoint / "commits")):
        return "CHECKPOINT_LOST"
    try:
        made_for = orjson.loads(_file(checkpoint).read_bytes())
        if made_for["format"] != wanted["format"]:
            return "CHECKPOINT_OF_ANOTHER_VERSION"
        before, now = made_for["state_partitions"], wanted["state_partitions"]
        if before != now:
            return f"STATE_PARTITIONS_CHANGED from {before} to {now}"
        known = made_for["code"]
        changed = [name for name, its in wanted["code"].items() if known.get(name) != its]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "CHECKPOINT_OF_ANOTHER_VERSION"
    return f"FOLD_CHANGED of {', '.join(changed)}" if changed else None


def made_of(checkpoint: CheckpointFolder) -> dict[str, str]:
    """The code that it was made by; empty where it cannot be told."""
    try:
        return dict(orjson.loads(_file(checkpoint).read_bytes())["code"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def begin_anew(checkpoint: CheckpointFolder, wanted: Identity) -> None:
    """Removes the checkpoint and notes what the next one is made for."""
    remove(checkpoint)
    replace(_file(checkpoint), orjson.dumps(wanted))


def _file(checkpoint: CheckpointFolder) -> CheckpointFolder:
    return checkpoint.with_name(f"{checkpoint.name}.made-for.json")
