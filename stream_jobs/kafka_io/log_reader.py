"""What Spark's own processes ask about Kafka's logs: one plans, many read.

It is imported by three processes for each query as they start: it imports little.
"""

import math
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import STALLED_S, RangeReader
from clients.kafka.read_tail import TailReader
from clients.kafka.records import LogRange, Offsets, by_topic, from_json
from shared.consumer_groups import of_job
from shared.kafka_access import KafkaAccess
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.guards.checkpoint_offsets import (
    Ahead,
    begins_at,
    further,
    remember_ahead,
    remember_begin,
)
from stream_jobs.guards.claim_watch import follow
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.log_ranges import as_json, left_of, planned, shared_out

if TYPE_CHECKING:
    import pyarrow as pa

_WAKES_EVERY_S = 0.005
# who stays at its logs may be done with these in one task, beside other jobs
_FEW = 2_000


@dataclass(frozen=True)
class Source:
    """What Spark's processes need to know."""

    job: str
    kafka: KafkaAccess
    topics: tuple[str, ...]
    begins_at: Offsets | None  # None: where the logs begin
    checkpoint: CheckpointFolder
    records_max: int
    tasks_max: int
    # pickled: it imports what those that only plan have no use for
    work: bytes = field(repr=False)
    looks_every_s: float = 0.0
    at_most_every_s: float = 0.0
    wakes: Path | None = None  # touched after each round of a job that stays at its logs
    stays_s: float = 0.0  # at the ends of its logs, after a batch of few records


class Task(InputPartition):
    def __init__(self, its: Sequence[LogRange], stays_from: Offsets | None = None) -> None:
        super().__init__(None)
        self.ranges = tuple(its)
        self.stays_from = stays_from


class LogReader(DataSourceStreamReader):
    """Planning is done in one process, reading in many others."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._log: LogOffsets | None = None
        self._looked_s = -math.inf
        self._woken_ns = 0
        self._away_since_s = 0.0
        self._ahead = Ahead(source.checkpoint)

    def initialOffset(self) -> dict:  # type: ignore[type-arg]  # noqa: N802 - Spark's name
        """The same where the first batch has to run again: what was begun must not be passed over
        because the log has lost its oldest records meanwhile."""
        begun = begins_at(self.source.checkpoint)
        if begun is None:
            begun = self.source.begins_at or by_topic(self.offsets().begins())
            remember_begin(self.source.checkpoint, begun)
        return as_json(begun)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.source.records_max)

    def latestOffset(self, start: dict, _limit: ReadLimit) -> dict:  # type: ignore[type-arg]  # noqa: N802
        try:
            self._pause()
            end = self._next(start)
        except KafkaException:
            self._away_since_s = self._away_since_s or time.monotonic()
            if time.monotonic() - self._away_since_s > STALLED_S:
                raise  # or a partition that is away alone would stop the job without a word
            return start  # nobody knows of more; where all is away, the driver's breaker says so
        self._away_since_s = 0.0
        return end

    def _pause(self) -> None:
        """Spark asks as soon as the batch before is done: a trigger of its own could not be woken
        as soon as there is something."""
        soonest_s = self._looked_s + self.source.at_most_every_s
        latest_s = self._looked_s + max(self.source.looks_every_s, self.source.at_most_every_s)
        time.sleep(max(0.0, soonest_s - time.monotonic()))
        while (left_s := latest_s - time.monotonic()) > 0 and self._wake_ns() == self._woken_ns:
            time.sleep(min(left_s, _WAKES_EVERY_S))
        self._looked_s, self._woken_ns = time.monotonic(), self._wake_ns()

    def _wake_ns(self) -> int:
        try:
            return self.source.wakes.stat().st_mtime_ns if self.source.wakes else 0
        except OSError:
            return 0  # nobody has stayed yet

    def _next(self, told: dict) -> dict:  # type: ignore[type-arg]
        """Where a batch ends that begins at `told`; `told` itself where it would have nothing. Of a
        topic that the job no longer reads nothing is told: it may be gone, or not ours to name."""
        start = {topic: at for topic, at in from_json(told).items() if topic in self.source.topics}
        done = further(start, self._ahead.now())
        end = planned(done, by_topic(self.offsets().ends()), self.source.records_max)
        return as_json(start if end == done else end)

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:  # type: ignore[type-arg]
        ahead = self._ahead.now()
        left = left_of(from_json(start), from_json(end), ahead)
        its = [one for one in left if one.topic in self.source.topics]
        if self.source.stays_s > 0 and sum(one.records for one in its) <= _FEW:
            return [Task(its, further(from_json(end), ahead))]
        return [Task(own) for own in shared_out(its, self.source.tasks_max)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Task)
        yield from work_on(self.source, partition)

    def offsets(self) -> LogOffsets:
        if self._log is None:
            group = of_job(self.source.job)
            self._log = LogOffsets(self.source.kafka, group, self.source.topics)
        return self._log


class RangesReader(DataSourceReader):
    """Reads ranges that are known, of no stream."""

    def __init__(self, source: Source, tasks: Sequence[Task]) -> None:
        self._source = source
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return self._tasks

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Task)
        yield from work_on(self._source, partition)


def work_on(source: Source, task: Task) -> "Iterator[pa.RecordBatch]":
    work = pickle.loads(source.work)
    follow(source.job, source.kafka)
    alone = partial(check_lease, source.job)
    yield from work(_range_reader(source.kafka, source.job).read(task.ranges, alone))
    if task.stays_from is None:
        return
    _is_done(source, task.stays_from)
    tail = _tail_reader(source.kafka, source.job)
    for records, up_to in tail.rounds(task.stays_from, source.stays_s, alone):
        yield from work(iter([records]))
        _is_done(source, up_to)


@cache  # a process keeps one, with its connections
def _range_reader(kafka: KafkaAccess, job: str) -> RangeReader:
    return RangeReader(kafka, of_job(job))


@cache
def _tail_reader(kafka: KafkaAccess, job: str) -> TailReader:
    return TailReader(kafka, of_job(job))


def _is_done(source: Source, up_to: Offsets) -> None:
    check_lease(source.job)  # another copy may be the one by now, and what it has done counts
    remember_ahead(source.checkpoint, up_to)
    if source.wakes is not None:
        with suppress(OSError):  # it costs the others a moment, and no payload
            source.wakes.touch()
