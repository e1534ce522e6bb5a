"""The dead-letter topics: read from a place on, or at places. Every call raises KafkaAwayError
where no broker answers."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from clients.kafka.connect import answering, reader
from clients.kafka.messages import record_of
from clients.kafka.read_at import RecordsAt
from clients.kafka.records import Partition, Record
from shared.consumer_groups import DESK
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.published import dead_letters
from shared.published.dead_letters import Letter
from shared.settings import Settings

_TIMEOUT_S = 10.0
_RECORDS_AT_ONCE = 200  # letters hold whole payloads


class LetterLog:
    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka

    @cached_property
    def _reading(self) -> Consumer:
        """PostgreSQL knows how far it has come."""
        options = {
            "auto.offset.reset": "earliest",
            # a topic that was dropped is soon known to be none
            "topic.metadata.propagation.max.ms": 2_000,
        }
        return reader(self._kafka, DESK, options)

    @cached_property
    def _single(self) -> RecordsAt:
        return RecordsAt(self._kafka, DESK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for made in ("_reading", "_single"):  # most requests need neither
            if made in vars(self):
                getattr(self, made).close()

    def go_on_from(self, known: Mapping[Partition, int]) -> None:
        """Each partition where it was left; where its log does not hold that place, at its start.
        Those that are new are among them."""
        with answering(self._kafka):
            topics = self._reading.list_topics(timeout=_TIMEOUT_S).topics
            places = [
                TopicPartition(topic, number, known.get((topic, number), OFFSET_BEGINNING))
                for topic, found in topics.items()
                if topic.startswith("dlq.")
                for number in found.partitions
            ]
            self._reading.assign(places)

    def read_on(self, timeout_s: float) -> tuple[list[Record], dict[Partition, int]]:
        """What has come, and where to go on after it."""
        found = []
        with answering(self._kafka):
            for message in self._reading.consume(_RECORDS_AT_ONCE, timeout_s):
                if _is_record(message):
                    found.append(record_of(message))
        return found, {record.position[:2]: record.position.offset + 1 for record in found}

    def at(self, places: Iterable[Position]) -> dict[Position, Record]:
        """Those that are there."""
        with answering(self._kafka):
            return self._single.read(places)


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    # a topic that was dropped has no more records, either
    ends = (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
    if error.code() in ends or error.code() == KafkaError._UNKNOWN_PARTITION:
        return False
    raise KafkaException(error)


def letter_of(flow: Flow, record: Record) -> Letter:
    return dead_letters.read(
        flow, record.position, record.time_ms, record.key, record.value, record.headers
    )
