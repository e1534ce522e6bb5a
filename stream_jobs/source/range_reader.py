"""Ranges of Kafka's logs, read by a worker process for its task."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from shared.errors import LogCutError, StalledError
from shared.kafka_access import KafkaAccess
from stream_jobs.guards.lease import check_lease
from stream_jobs.source.log_ranges import STALLED_S, LogRange

_AT_ONCE = 5_000
_WAIT_S = 0.05  # which is waited whole where less comes than asked for


class RangeReader:
    """One of a process, which keeps its connections; it reads for one task at a time."""

    def __init__(self, kafka: KafkaAccess, job: str) -> None:
        self._job = job
        self._consumer = Consumer(
            {
                **kafka.for_reading(f"headrace-{job}"),
                "enable.partition.eof": True,
                # what is not there any more must not be passed over
                "auto.offset.reset": "error",
                "check.crcs": True,  # the broker does not
                # a fetch waits for no more than there is: what is asked for is known to be there
                "fetch.wait.max.ms": 5,
                "queued.max.messages.kbytes": 8 * 1024,
                "log_level": 2,
            }
        )

    def read(self, ranges: Sequence[LogRange]) -> Iterator[list[Message]]:
        """In log order per partition. As long as Kafka does not answer, it waits, but not for ever:
        a partition alone may be away, or end earlier than it did when the batch was planned."""
        ends = {(one.topic, one.partition): one.end for one in ranges}
        left = sum(one.records for one in ranges)
        starts = [TopicPartition(one.topic, one.partition, one.start) for one in ranges]
        self._consumer.assign(starts)
        too_short: dict[tuple[str, int], int] = {}  # as far as was seen
        moved_s = time.monotonic()
        try:
            while ends:
                found = []
                for message in self._consumer.consume(min(left, _AT_ONCE), _WAIT_S):
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
                    check_lease(self._job)
                    if time.monotonic() - moved_s > STALLED_S:
                        raise _stalled(ends, too_short)
        finally:
            self._consumer.unassign()


def _stalled(
    ends: Mapping[tuple[str, int], int], too_short: Mapping[tuple[str, int], int]
) -> Exception:
    for (topic, partition), seen in too_short.items():
        if end := ends.get((topic, partition)):
            return LogCutError(f"{topic}/{partition} ends at {seen}, it was planned to {end}")
    (topic, partition), end = next(iter(ends.items()))
    return StalledError(f"{topic}/{partition} has given nothing for {STALLED_S} s, up to {end}")


@cache
def range_reader(kafka: KafkaAccess, job: str) -> RangeReader:
    return RangeReader(kafka, job)
