"""What may have been sent before, which no hook gets that wants each event at most once.

A batch that runs again cannot know what it has sent. So it sends such a hook nothing of what it
may have tried the time before; and where forward begins without its checkpoint, nothing of what was
on the topics by then.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import orjson
from pyspark import TaskContext

from clients.kafka.records import Partition
from shared.events.envelope import Position
from shared.forwarding.hook import Hook
from shared.settings import JobSettings
from stream_jobs.forward.delivery import STAGE
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, checkpoint_of, names_in, replace

_BATCH_ID = "streaming.sql.batchId"
_AHEAD = 4
NOT_AGAIN = "not sent: it may have been sent before, and this webhook wants nothing twice"


def ahead(hook: Hook) -> int:
    """How many deliveries of a line a batch may begin, so that one that runs again has no more than
    these to leave out."""
    return max(_AHEAD, hook.batch)


class Begun(NamedTuple):
    """What the driver knows as its query begins."""

    unfinished: int | None = None  # the batch that runs again
    first: tuple[tuple[str, int, int], ...] = ()  # what is before was perhaps sent

    def may_be_sent(self, place: Position) -> bool:
        return not any(
            (topic, partition) == (place.topic, place.partition) and place.offset < offset
            for topic, partition, offset in self.first
        )


def runs_again(begun: Begun) -> bool:
    """Whether the batch of this task may have been begun before."""
    context = TaskContext.get()
    if context is None:
        return False
    is_unfinished = context.getLocalProperty(_BATCH_ID) == str(begun.unfinished)
    return is_unfinished or context.attemptNumber() > 0


def begin_anew(settings: JobSettings, ends: Mapping[Partition, int]) -> None:
    first = [[topic, partition, offset] for (topic, partition), offset in ends.items()]
    replace(_file(settings), orjson.dumps(first))


def begun(settings: JobSettings) -> Begun:
    checkpoint = checkpoint_of(settings, STAGE)
    planned, done = (
        max((int(one) for one in names_in(checkpoint / name) if one.isdecimal()), default=-1)
        for name in ("offsets", "commits")
    )
    first: list[tuple[str, int, int]] = []
    with suppress(OSError):
        first = orjson.loads(_file(settings).read_bytes())
    unfinished = planned if planned > done else None
    return Begun(unfinished, tuple((topic, number, offset) for topic, number, offset in first))


def _file(settings: JobSettings) -> CheckpointFolder:
    return checkpoint_of(settings, f"{STAGE}.at-most-once.json")
