"""The topics of the view, as Kafka has them: who they are, where they end, what comes next."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from clients.kafka.offsets import QUIET, Partition, Range, asking_consumer, offset_ranges
from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess, KafkaAwayError

_ANSWER_S = 2.0
_BATCH_RECORDS = 5000


class TopicFacts(NamedTuple):
    topic_id: str
    starts: dict[int, int]
    ends: dict[int, int]


class ViewSource:
    def __init__(self, kafka: KafkaAccess, on_damage: Callable[[], None]) -> None:
        self._kafka = kafka
        self._common: dict[str, Any] = {
            **kafka.for_librdkafka(),
            "logger": QUIET,
            "reconnect.backoff.max.ms": 1000,
        }
        self._on_damage = on_damage
        self._connect()

    def _connect(self) -> None:
        # only an admin client tells a topic's id; that it may abort its process (see kafka_offsets)
        # costs a restart of the view's writer, nothing else
        self._admin = AdminClient(self._common)
        self._asking = asking_consumer(self._kafka)
        self._consumer = Consumer(
            {
                **self._kafka.for_reading("headrace-view"),  # offsets stand in the view
                **self._common,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.error.backoff.ms": 100,
            }
        )

    def facts(self, topics: Collection[str]) -> dict[str, TopicFacts]:
        """Of those topics that exist."""
        found: dict[str, tuple[str, list[int]]] = {}
        asked = self._admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=_ANSWER_S
        )
        for topic, answer in asked.items():
            try:
                description = answer.result(_ANSWER_S + 1)
            except TimeoutError as error:
                raise KafkaAwayError(str(error)) from None
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise KafkaAwayError(str(error)) from None
                continue
            found[topic] = (str(description.topic_id), [p.id for p in description.partitions])
        partitions = [(topic, p) for topic, (_, ids) in found.items() for p in ids]
        ranges = self._ranges(partitions)
        return {
            topic: TopicFacts(
                topic_id,
                {p: ranges[topic, p].start for p in ids},
                {p: ranges[topic, p].end for p in ids},
            )
            for topic, (topic_id, ids) in found.items()
        }

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {at: found.end for at, found in self._ranges(partitions).items()}

    def _ranges(self, partitions: Collection[Partition]) -> dict[Partition, Range]:
        try:
            return offset_ranges(self._asking, partitions, _ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() in _DAMAGE:
                self._on_damage()
            raise KafkaAwayError(str(error)) from None
        except TimeoutError as error:
            raise KafkaAwayError(str(error)) from None

    def follow(self, positions: Mapping[Partition, int]) -> None:
        # librdkafka holds on to the leader epochs of a topic: with clients that have known an
        # earlier topic of the same name, the new one is never read
        self._consumer.close()
        self._asking.close()
        self._connect()
        self._consumer.assign(
            [TopicPartition(topic, p, offset) for (topic, p), offset in positions.items()]
        )

    def take(self, wait_s: float) -> list[Message]:
        """What is there. Waits only for the first record."""
        first: list[Message] = self._consumer.consume(1, wait_s)
        if not first:
            return first
        rest = first + self._consumer.consume(_BATCH_RECORDS - 1, 0)
        for message in rest:
            error = message.error()
            if error is not None and error.code() in _DAMAGE:
                self._on_damage()
        return rest


def place_of(message: Message) -> Position:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("the message has no place in a log")
    return Position(topic, partition, offset)


def reached_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


_DAMAGE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
}
