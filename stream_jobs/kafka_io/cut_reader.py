"""Logs read in batches that are cut by time: one has what was appended up to a moment, in all
partitions, and the next one has what came after it.

So a batch stands for a time of the log, whichever batches there were before. What is computed of
all records up to a cut is the same after a lost checkpoint, and two results can be told apart by
their cuts. The cut stands in Spark's own notes of the batch, beside the offsets.
"""

import pickle
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from pyspark.sql.datasource import InputPartition

from clients.kafka.records import (
    LogRange,
    Offsets,
    Partition,
    by_partition,
    by_topic,
    from_json,
    or_end,
)
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.guards.checkpoint_offsets import further, told_of_batch
from stream_jobs.kafka_io.cuts import CUT, cut_of, idle_pause_ms, next_cut
from stream_jobs.kafka_io.log_ranges import as_json, ranges, shared_out
from stream_jobs.kafka_io.log_reader import LogReader, Source, Task, work_on

if TYPE_CHECKING:
    import pyarrow as pa

# Kafka may not show a record yet that was appended this shortly ago
_SETTLED_MS = 250


class CutTask(Task):
    def __init__(self, its: Sequence[LogRange], after_ms: int, cut_ms: int) -> None:
        super().__init__(its)
        self.after_ms, self.cut_ms = after_ms, cut_ms


class CutReader(LogReader):
    """Without records, too, there is a batch now and then: its time goes on."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._span_ms = 0  # between the last two cuts
        self._had_records_ms = 0

    def initialOffset(self) -> dict:  # type: ignore[type-arg]  # noqa: N802
        return _told(from_json(super().initialOffset()), 0)

    def _next(self, told: dict) -> dict:  # type: ignore[type-arg]
        start, before_ms = from_json(told), cut_of(told)
        now_ms = time.time_ns() // 1_000_000 - _SETTLED_MS
        if now_ms <= before_ms:  # this clock went back: wait until it is past the last cut
            return told
        ends = self.offsets().ends()
        known = by_partition(start)
        if not ends or known.keys() - ends.keys():
            # time must not go on over what cannot be seen now
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        begins = {at: known.get(at, 0) for at in ends}
        self._had_records_ms = self._had_records_ms or now_ms
        if not ranges(start, by_topic(ends)):
            is_due = now_ms - before_ms >= idle_pause_ms(now_ms - self._had_records_ms)
            return _told(start, now_ms) if is_due else told
        self._had_records_ms = now_ms

        def up_to(cut_ms: int) -> dict[Partition, int]:
            later = self.offsets().since(dict.fromkeys(ends, cut_ms + 1))
            # a partition never goes back: its clock may
            return {at: max(begins[at], or_end(later, at, end)) for at, end in ends.items()}

        guess_ms = before_ms + 4 * self._span_ms if self._span_ms else now_ms
        limit = self.source.records_max
        cut_ms, reached = next_cut(begins, up_to, before_ms, guess_ms, now_ms, limit)
        self._span_ms = cut_ms - before_ms if before_ms else 0
        return _told(further(start, by_topic(reached)), cut_ms)

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:  # type: ignore[type-arg]
        its = ranges(from_json(start), from_json(end))
        tasks = [*shared_out(its, self.source.tasks_max)] or [[]]
        return [CutTask(own, cut_of(start), cut_of(end)) for own in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, CutTask)
        if partition.ranges:
            for rows in work_on(self.source, partition):
                yield _after(rows, partition.after_ms)
        rows = pickle.loads(self.source.work)
        yield _after(rows.cut(partition.cut_ms), partition.after_ms)


def _after(rows: "pa.RecordBatch", after_ms: int) -> "pa.RecordBatch":
    import pyarrow as pa  # those that only plan have no use for it

    after = pa.repeat(pa.scalar(after_ms * 1000, rows.schema.field("after").type), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns[:-1], after], schema=rows.schema)


def cut_of_batch(checkpoint: CheckpointFolder, batch: int) -> int:
    """As Spark has noted it before the batch began; of several logs, the one that is behind."""
    return min(map(cut_of, told_of_batch(checkpoint, batch)), default=0)


def _told(offsets: Offsets, cut_ms: int) -> dict:  # type: ignore[type-arg]
    return {**as_json(offsets), CUT: {"0": cut_ms}}
