"""Ranges of logs, each read to its end."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import position_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import LogRange, Partition, Range, Record, by_topic
from shared.errors import LogCutError, StalledError
from shared.kafka_access import KafkaAccess

STALLED_S = 60  # without a record, where some are known to be there
_AT_ONCE = 5_000
_WAIT_S = 0.05  # which is waited whole where less comes than asked for
_OPTIONS = {
    # a fetch waits for no more than there is: what is asked for is known to be there
    "fetch.wait.max.ms": 5,
    "queued.max.messages.kbytes": 8 * 1024,
}
_PIECE = 100
_IN_PIECES = {"fetch.message.max.bytes": 200_000}


class RangeReader:
    """Keeps its connections; it reads one set of ranges at a time."""

    def __init__(
        self,
        kafka: KafkaAccess,
        group: str,
        stalled_s: float = STALLED_S,
        *,
        in_pieces: bool = False,
    ) -> None:
        """`in_pieces`: for who may have found what it wants long before the end."""
        self._consumer = reader(kafka, group, _OPTIONS | (_IN_PIECES if in_pieces else {}))
        self._stalled_s = stalled_s
        self._at_once = _PIECE if in_pieces else _AT_ONCE

    def read(
        self, ranges: Sequence[LogRange], while_waiting: Callable[[], None] = lambda: None
    ) -> Iterator[list[Message]]:
        """In log order per partition. As long as Kafka does not answer, it waits, but not for ever:
        a partition alone may be away, or end earlier than it did when the range was planned."""
        ends = {(one.topic, one.partition): one.end for one in ranges}
        left = sum(one.records for one in ranges)
        starts = [TopicPartition(one.topic, one.partition, one.start) for one in ranges]
        self._consumer.assign(starts)
        too_short: dict[Partition, int] = {}  # as far as was seen
        moved_s = time.monotonic()
        try:
            while ends:
                found = []
                for message in self._consumer.consume(min(left, self._at_once), _WAIT_S):
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        if message.topic() is None and not error.fatal():
                            continue  # of the connection: the client goes on trying
                        raise KafkaException(error)
                    at = str(message.topic()), message.partition() or 0
                    end = ends.get(at)
                    if end is None:
                        continue  # fetched ahead
                    next_offset = message.offset() or 0
                    if error is None:
                        if next_offset < end:
                            found.append(message)
                        next_offset += 1
                    elif next_offset < end:
                        too_short[at] = next_offset
                    if next_offset >= end:  # what it has skipped is compacted away
                        del ends[at]
                        self._consumer.incremental_unassign([TopicPartition(*at)])
                left = max(1, left - len(found))
                if found:
                    yield found
                    moved_s = time.monotonic()
                elif ends:
                    while_waiting()
                    if time.monotonic() - moved_s > self._stalled_s:
                        raise _stalled(ends, too_short, self._stalled_s)
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()


def _stalled(
    ends: Mapping[Partition, int], too_short: Mapping[Partition, int], after_s: float
) -> Exception:
    for (topic, partition), seen in too_short.items():
        if end := ends.get((topic, partition)):
            return LogCutError(f"{topic}/{partition} ends at {seen}, it was planned to {end}")
    (topic, partition), end = next(iter(ends.items()))
    return StalledError(f"{topic}/{partition} has given nothing for {after_s:.0f} s, up to {end}")


class WholeTopics:
    """Topics from their first record to what was their end when this was made."""

    def __init__(
        self,
        kafka: KafkaAccess,
        group: str,
        topics: Collection[str],
        only: Mapping[Partition, int] | None = None,
    ) -> None:
        """`only`: partitions, each with the last offset of interest."""
        self._kafka, self._group = kafka, group
        with LogOffsets(kafka, group, topics) as log:
            ranges = log.ranges()
        if only is not None:
            ranges = {
                at: Range(start, max(start, min(end, only[at] + 1)))
                for at, (start, end) in ranges.items()
                if at in only
            }
        self._ranges = [LogRange(*at, *its) for at, its in ranges.items()]
        self.ends = by_topic({(one.topic, one.partition): one.end for one in self._ranges})
        # there may be fewer: of a compacted topic some are gone
        self.records = sum(one.records for one in self._ranges)

    def read(self) -> Iterator[Record]:
        """Without their headers and times."""
        consumer = RangeReader(self._kafka, self._group)
        try:
            for messages in consumer.read([one for one in self._ranges if one.records]):
                for message in messages:
                    yield Record(position_of(message), message.key(), message.value())
        finally:
            consumer.close()
