"""What the jobs have read, as their checkpoints say, against what the flow lets them read."""

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import orjson

from clients.kafka.records import Offsets, from_json
from shared.topic_names import VIEW_TOPICS
from stream_jobs.guards.checkpoint_folder import (
    CheckpointFolder,
    StoredFolder,
    names_in,
    replace,
)

if TYPE_CHECKING:  # Spark starts processes that import this, and have no use for flows
    from shared.flow_table import Flow

_BEGINS_AT = "begins_at.json"
_AHEAD = "ahead.json"
_NONE = b"-"


class Read(NamedTuple):
    done: Offsets  # up to here all is written
    planned: Offsets  # up to here the batch goes that may have to run again


def why_not(checkpoints: CheckpointFolder, flow: "Flow") -> str | None:
    """Why this flow cannot go on from these checkpoints; None where it can. A flow may grow. Of a
    topic that it no longer reads Spark says that data was lost, at each restart again. Views know
    by themselves what they were made of, and the topic of one may go when its version does."""
    views = {row.job for row in flow.views}
    for job in (one for one in flow.jobs() if one.name not in views):
        read = offsets_of(checkpoints / job.name).planned.keys() - set(job.ignited_by)
        may_go = {
            topic for topic in read if job.name == "persist" and topic.startswith(VIEW_TOPICS)
        }
        gone = sorted(read - may_go)
        if gone:
            others = f" and {len(gone) - 1} more" if gone[1:] else ""
            return (
                f"the checkpoints in {checkpoints} belong to another flow: {job.name} has read "
                f"{gone[0]}{others}, which this flow does not let it read"
            )
    return None


def offsets_of(checkpoint: CheckpointFolder) -> Read:
    """Empty where it cannot be told: then it is for Spark to judge."""
    planned, done = _batches(checkpoint / "offsets"), last_done(checkpoint)
    return Read(
        {} if done is None else _offsets(checkpoint, done),
        _offsets(checkpoint, max(planned)) if planned else {},
    )


def last_done(checkpoint: CheckpointFolder) -> int | None:
    """The last batch of which all is written, and that is still known."""
    planned = _batches(checkpoint / "offsets")
    return max((one for one in _batches(checkpoint / "commits") if one in planned), default=None)


def remember_begin(checkpoint: CheckpointFolder, offsets: Offsets) -> None:
    """Where a query begins that has no checkpoint yet. What it says is believed only as it was
    written: with a digit changed by its disk it would pass over payloads in silence."""
    replace(checkpoint / _BEGINS_AT, seal(_told(offsets)), synced=True)


def begins_at(checkpoint: CheckpointFolder) -> Offsets | None:
    return _noted(checkpoint / _BEGINS_AT)


def remember_ahead(checkpoint: CheckpointFolder, offsets: Offsets) -> None:
    """What a job has done that no batch of Spark's has in its plan. It lasts as Spark's own files
    do: what a machine that fails forgets of it is done again."""
    replace(checkpoint / _AHEAD, seal(_told(further(ahead_at(checkpoint), offsets))))


def ahead_at(checkpoint: CheckpointFolder) -> Offsets:
    return _noted(checkpoint / _AHEAD) or {}


class Ahead:
    """What a process keeps asking for. A folder's is read each time: processes of this machine add
    to it. A stored one is what the query began with."""

    def __init__(self, checkpoint: CheckpointFolder) -> None:
        self._checkpoint = checkpoint
        self._known: Offsets | None = None

    def now(self) -> Offsets:
        if self._known is None or not isinstance(self._checkpoint, StoredFolder):
            self._known = ahead_at(self._checkpoint)
        return self._known


def seal(said: bytes) -> bytes:
    """With a checksum: what a disk has changed in a note of a job's own is not believed."""
    return b"%s\n%08x\n" % (said, crc32(said))


def unseal(raw: bytes) -> bytes:
    """ValueError where it is not what was sealed."""
    said, _, checksum = raw.partition(b"\n")
    if checksum != b"%08x\n" % crc32(said):
        raise ValueError("it is not what was written")
    return said


def _noted(file: CheckpointFolder) -> Offsets | None:
    try:
        return from_json(orjson.loads(unseal(file.read_bytes())))
    except (OSError, ValueError, AttributeError):
        return None


def further(one: Offsets, other: Offsets) -> Offsets:
    found = {topic: dict(partitions) for topic, partitions in one.items()}
    for topic, partitions in other.items():
        its = found.setdefault(topic, {})
        for partition, offset in partitions.items():
            its[partition] = max(offset, its.get(partition, 0))
    return found


def told_of_batch(checkpoint: CheckpointFolder, batch: int) -> list[Any]:
    """What each source has said of where the batch ends; nothing of one that had none yet."""
    _version, _metadata, *sources = (checkpoint / "offsets" / str(batch)).read_bytes().splitlines()
    return [orjson.loads(told) for told in sources if told != _NONE]


def nearest(one: Offsets, other: Offsets) -> Offsets:
    """Where two read a partition, up to where both have come."""
    found = further(one, other)
    for topic in one.keys() & other.keys():
        for partition in one[topic].keys() & other[topic].keys():
            found[topic][partition] = min(one[topic][partition], other[topic][partition])
    return found


def _batches(log: CheckpointFolder) -> list[int]:
    return [int(name) for name in names_in(log) if name.isdecimal()]


def _offsets(checkpoint: CheckpointFolder, batch: int) -> Offsets:
    try:
        sources = [from_json(told) for told in told_of_batch(checkpoint, batch)]
    except (OSError, ValueError, AttributeError):
        return {}
    return reduce(nearest, sources, {})


def _told(offsets: Offsets) -> bytes:
    return orjson.dumps(offsets, option=orjson.OPT_NON_STR_KEYS)
