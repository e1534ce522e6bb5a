"""What the jobs have read, as their checkpoints say, against what the flow lets them read."""

from pathlib import Path

import orjson

from shared.topology import Flow


def why_not(checkpoints: Path, flow: Flow) -> str | None:
    """Why this flow cannot go on from these checkpoints; None where it can. A flow may grow. Of a
    topic that it no longer reads Spark says that data was lost, at each restart again."""
    for job in flow.jobs():
        gone = sorted(_topics_read(checkpoints / job.name) - set(job.ignited_by))
        if gone:
            others = f" and {len(gone) - 1} more" if gone[1:] else ""
            return (
                f"the checkpoints in {checkpoints} belong to another flow: {job.name} has read "
                f"{gone[0]}{others}, which this flow does not let it read"
            )
    return None


def _topics_read(checkpoint: Path) -> set[str]:
    """Empty where it cannot be told: then it is for Spark to judge."""
    batches = [path for path in (checkpoint / "offsets").glob("*") if path.name.isdecimal()]
    newest = max(batches, key=lambda path: int(path.name), default=None)
    try:
        offsets = orjson.loads(newest.read_bytes().splitlines()[-1]) if newest else {}
    except (OSError, ValueError, IndexError):
        return set()
    return set(offsets) if isinstance(offsets, dict) else set()
