"""How far a job is behind: in records, and since when the oldest of them has been there."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition

from clients.kafka.connect import reader
from clients.kafka.records import Offsets, Partition, Range
from shared.kafka_access import KafkaAccess
from shared.published.partition_lag import PartitionLag, told

_WITHIN_S = 1.0


class Lag(NamedTuple):
    records: int
    seconds: float | None  # None: the oldest record was not read in time
    partitions: Mapping[Partition, PartitionLag] = {}  # where there is any

    def told(self) -> dict[str, Any]:
        """As the job's report has it."""
        return {
            "lag_records": self.records,
            "lag_s": self.seconds,
            "partitions": told(self.partitions),
        }


UNKNOWN: dict[str, Any] = {"lag_records": None, "lag_s": None, "partitions": {}}


class UnreadRecords(NamedTuple):
    """The first record of a partition that the job has yet to finish."""

    offset: int
    records: int


def unread(committed: Offsets, ranges: Mapping[Partition, Range]) -> dict[Partition, UnreadRecords]:
    """How much is unread in each partition where there is any. Pure."""
    found = {}
    for (topic, partition), log in ranges.items():
        offset = max(committed.get(topic, {}).get(partition, log.start), log.start)
        if offset < log.end:
            found[topic, partition] = UnreadRecords(offset, log.end - offset)
    return found


class LagReader:
    """The broker's time of a record stands in the record alone, so the oldest ones are read: once,
    as long as they stay the oldest."""

    def __init__(self, kafka: KafkaAccess, group: str) -> None:
        options = {
            "auto.offset.reset": "largest",  # what is gone is no lag
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": 64,
            "fetch.message.max.bytes": 1024,  # a batch comes whole, however long it is
        }
        self._consumer = reader(kafka, group, options)
        self._at_ms: dict[tuple[Partition, int], int] = {}

    def lag(self, waiting: Mapping[Partition, UnreadRecords]) -> Lag:
        """KafkaException where the broker does not answer."""
        firsts = {(place, one.offset) for place, one in waiting.items()}
        self._at_ms = {first: at for first, at in self._at_ms.items() if first in firsts}
        self._read(firsts - self._at_ms.keys())
        if not waiting:
            return Lag(0, 0.0)
        now_ms = time.time() * 1000
        ages_s = {
            place: round(max(now_ms - at_ms, 0.0) / 1000, 3)
            for (place, _), at_ms in self._at_ms.items()
        }
        partitions = {
            place: PartitionLag(one.records, ages_s.get(place)) for place, one in waiting.items()
        }
        records = sum(one.records for one in waiting.values())
        return Lag(records, max(ages_s.values(), default=None), partitions)

    def _read(self, firsts: set[tuple[Partition, int]]) -> None:
        if not firsts:
            return
        missing = dict(firsts)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in firsts])
        give_up_s = time.monotonic() + _WITHIN_S
        while missing and (left_s := give_up_s - time.monotonic()) > 0:
            message = self._consumer.poll(left_s)
            if message is None or message.error() is not None:
                continue
            place = str(message.topic()), message.partition() or 0
            # compaction may have taken that record: the next one is as good
            if (offset := missing.pop(place, None)) is not None:
                self._at_ms[place, offset] = message.timestamp()[1]
                self._consumer.incremental_unassign([TopicPartition(*place)])
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()
