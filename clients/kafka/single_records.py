"""Payloads where they first came: single records of the ingest topics, by their places."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from clients.kafka.records import LogRecord
from shared.events.envelope import Header, Position
from shared.kafka_access import KafkaAccess

_TIMEOUT_S = 10.0
_READ_ON_MAX = 500  # records between two wanted ones: to seek costs more than to read these


class Origins:
    """Every method raises KafkaException where the broker does not answer."""

    def __init__(self, kafka: KafkaAccess, group: str) -> None:
        self._consumer = Consumer(
            {
                **kafka.for_reading(group),
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 16 * 1024,
                "log_level": 0,
            }
        )

    def read(self, places: Collection[Position]) -> dict[Position, tuple[LogRecord, int]]:
        """With the time of arrival. Those that are not found are not there any more."""
        by_partition: dict[tuple[str, int], list[int]] = defaultdict(list)
        for topic, partition, offset in places:
            by_partition[topic, partition].append(offset)
        topics = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        found = {}
        for (topic, partition), offsets in by_partition.items():
            if topic in topics and partition in topics[topic].partitions:
                for record, arrived_ms in self._read(topic, partition, sorted({*offsets})):
                    found[record.position] = record, arrived_ms
        return found

    def _read(
        self, topic: str, partition: int, offsets: list[int]
    ) -> Iterator[tuple[LogRecord, int]]:
        begin, end = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), _TIMEOUT_S
        )
        wanted = [offset for offset in offsets if begin <= offset < end]
        at = -_READ_ON_MAX - 1
        for offset in wanted:
            if offset - at > _READ_ON_MAX:
                self._consumer.assign([TopicPartition(topic, partition, offset)])
            message = self._next(offset)
            if message is None:
                break  # behind the last record that can be read
            at = int(message.offset() or 0)
            if at == offset:
                headers: Any = message.headers() or []
                pairs: list[Header] = [(name, value or b"") for name, value in headers]
                key, value = message.key(), message.value()
                place = Position(topic, partition, offset)
                yield LogRecord(place, _bytes(key), _bytes(value), pairs), message.timestamp()[1]
        self._consumer.unassign()

    def _next(self, offset: int) -> Any:
        """The first record from there on; None at the end."""
        while True:
            message = self._consumer.poll(_TIMEOUT_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            error = message.error()
            if error is None:
                if int(message.offset() or 0) >= offset:
                    return message
            elif error.code() == KafkaError._PARTITION_EOF:
                return None
            else:
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
