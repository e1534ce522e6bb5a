"""How far a job is behind: in records, and since when the oldest of them has been there."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import TopicPartition

from clients.kafka.connect import reader
from clients.kafka.records import Offsets, Partition, Range
from shared.kafka_access import KafkaAccess

_WITHIN_S = 1.0


class Lag(NamedTuple):
    records: int
    seconds: float | None  # None: the oldest record was not read in time


class UnreadRecords(NamedTuple):
    """The first record of a partition that the job has yet to finish."""

    offset: int
    records: int


def unread(committed: Offsets, ranges: Mapping[Partition, Range]) -> dict[Partition, UnreadRecords]:
    """Of the partitions where there is any. Pure."""
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
        records = sum(one.records for one in waiting.values())
        firsts = {(place, one.offset) for place, one in waiting.items()}
        self._at_ms = {first: at for first, at in self._at_ms.items() if first in firsts}
        self._read(firsts - self._at_ms.keys())
        if not records:
            return Lag(0, 0.0)
        if not self._at_ms:
            return Lag(records, None)
        age_s = time.time() - min(self._at_ms.values()) / 1000
        return Lag(records, round(max(age_s, 0.0), 3))

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
