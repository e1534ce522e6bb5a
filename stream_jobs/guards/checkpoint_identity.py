"""What a job's checkpoint was made for: beside it, so that a job notices by name where it no longer
fits. Spark itself would go on with the old number of partitions, and with the state of old code."""

import shutil
from pathlib import Path
from typing import Any

import orjson

from shared.settings import JobSettings

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


def why_not(checkpoint: Path, wanted: Identity) -> str | None:
    """Why the job cannot go on from it; None where it can."""
    # a query that has not finished its first batch has yet to begin
    if not any(path.name.isdecimal() for path in (checkpoint / "commits").glob("*")):
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


def made_of(checkpoint: Path) -> dict[str, str]:
    """The code that it was made by; empty where it cannot be told."""
    try:
        return dict(orjson.loads(_file(checkpoint).read_bytes())["code"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def begin(checkpoint: Path, wanted: Identity) -> None:
    """Makes room for one that fits."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    _file(checkpoint).write_bytes(orjson.dumps(wanted))


def _file(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.made-for.json")
