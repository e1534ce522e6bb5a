"""The topics of the view, as Kafka has them: who they are, where they end, what comes next."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from clients.kafka.connect import admin, reader
from clients.kafka.messages import ANOTHER_LOG
from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from clients.kafka.records import Partition, by_topic
from clients.kafka.topic_ids import topic_ids
from shared.consumer_groups import GATEWAY, VIEW
from shared.kafka_access import KafkaAccess, KafkaAwayError

_ANSWER_S = 2.0
_BATCH_RECORDS = 5000
_OPTIONS = {
    "reconnect.backoff.max.ms": 1000,
    "fetch.error.backoff.ms": 100,
    "fetch.wait.max.ms": 500,
    "queued.max.messages.kbytes": 64 * 1024,
}


class TopicFacts(NamedTuple):
    topic_id: str
    starts: dict[int, int]
    ends: dict[int, int]

    def of(self, partitions: Collection[int]) -> "TopicFacts":
        starts, ends = ({p: its[p] for p in partitions if p in its} for its in self[1:])
        return TopicFacts(self.topic_id, starts, ends)


class ViewSource:
    def __init__(self, kafka: KafkaAccess, on_damage: Callable[[], None]) -> None:
        self._kafka = kafka
        self._on_damage = on_damage
        self._connect()

    def _connect(self) -> None:
        # that it may abort its process costs a restart of the view's writer, nothing else
        self._admin = admin(self._kafka)
        self._log = LogOffsets(self._kafka, GATEWAY, answer_s=_ANSWER_S, options=ANSWERS_SOON)
        # its offsets stand in the view
        self._consumer = reader(self._kafka, VIEW, _OPTIONS)

    def facts(self, topics: Collection[str]) -> dict[str, TopicFacts]:
        """What is known of those topics that exist."""
        with self._asking():
            found = topic_ids(self._admin, topics, _ANSWER_S)
            places = [(topic, p) for topic, its in found.items() for p in its.partitions]
            starts, ends = (by_topic(of(places)) for of in (self._log.begins, self._log.ends))
        return {
            topic: TopicFacts(its.id, starts.get(topic, {}), ends.get(topic, {}))
            for topic, its in found.items()
        }

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        with self._asking():
            return self._log.ends(partitions)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() in ANOTHER_LOG:
                self._on_damage()
            raise KafkaAwayError(str(error)) from None

    def follow(self, positions: Mapping[Partition, int]) -> None:
        # librdkafka holds on to the leader epochs of a topic: with clients that have known an
        # earlier topic of the same name, the new one is never read
        self._consumer.close()
        self._log.close()
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
            if error is not None and error.code() in ANOTHER_LOG:
                self._on_damage()
        return rest


def reached_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF
