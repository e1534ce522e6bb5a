"""Topics from their first record to what was their end when this was asked."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess

_TIMEOUT_S = 10.0
_AT_ONCE = 5_000


class KafkaRecord(NamedTuple):
    position: Position
    key: bytes | None
    value: bytes | None


class WholeTopics:
    """In log order per partition; KafkaException where the broker does not answer."""

    def __init__(
        self,
        kafka: KafkaAccess,
        group: str,
        topics: Collection[str],
        only: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """`only`: partitions, each with the last offset of interest."""
        self._consumer = Consumer(
            {
                **kafka.for_reading(group),
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 2,
            }
        )
        known = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        self._places = [
            TopicPartition(topic, partition)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
            if only is None or (topic, partition) in only
        ]
        self.ends: dict[str, dict[int, int]] = {}
        self.records = 0  # there may be fewer: of a compacted topic some are gone
        for place in self._places:
            place.offset, end = self._consumer.get_watermark_offsets(place, _TIMEOUT_S)
            if only is not None:
                end = max(place.offset, min(end, only[place.topic, place.partition] + 1))
            self.ends.setdefault(place.topic, {})[place.partition] = end
            self.records += end - place.offset

    def read(self) -> Iterator[KafkaRecord]:
        missing = {(at.topic, at.partition) for at in self._places if at.offset < self._end(at)}
        self._consumer.assign([at for at in self._places if (at.topic, at.partition) in missing])
        while missing:
            for message in self._consumer.consume(_AT_ONCE, 1.0):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                if error is None and offset < self.ends[topic][partition]:
                    position = Position(topic, partition, offset)
                    yield KafkaRecord(position, message.key(), message.value())
                if error is not None or offset + 1 >= self.ends[topic][partition]:
                    missing.discard((topic, partition))

    def close(self) -> None:
        self._consumer.close()

    def _end(self, place: TopicPartition) -> int:
        return self.ends[place.topic][place.partition]
