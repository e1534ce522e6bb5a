"""The dead-letter topics: read from a place on, or at places. Every call raises KafkaAwayError
where no broker answers."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from shared.events.envelope import Header, Position
from shared.kafka_access import KafkaAwayError
from shared.settings import Settings

Partition = tuple[str, int]

_GROUP = "headrace-desk"  # has to be there, is never joined: PostgreSQL knows how far it has come
_TIMEOUT_S = 10.0
_RECORDS_AT_ONCE = 200  # letters hold whole payloads
_READ_OVER_MAX = 200  # records between two wanted ones; beyond, it costs less to ask anew


class Record(NamedTuple):
    place: Position
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LetterLog:
    def __init__(self, settings: Settings) -> None:
        self._bootstrap = settings.kafka_bootstrap
        self._consumer = Consumer(
            {
                **settings.kafka.for_reading(_GROUP),
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 16 * 1024,
                "fetch.wait.max.ms": 100,
                # a topic that was dropped is soon known to be none
                "topic.metadata.propagation.max.ms": 2_000,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def go_on_from(self, known: Mapping[Partition, int]) -> None:
        """Each partition where it was left; where its log does not hold that place, at its start.
        Those that are new are among them."""
        with self._asking():
            topics = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
            places = [
                TopicPartition(topic, number, known.get((topic, number), OFFSET_BEGINNING))
                for topic, found in topics.items()
                if topic.startswith("dlq.")
                for number in found.partitions
            ]
            self._consumer.assign(places)

    def read_on(self, timeout_s: float) -> tuple[list[Record], dict[Partition, int]]:
        """What has come, and where to go on after it."""
        found = []
        with self._asking():
            for message in self._consumer.consume(_RECORDS_AT_ONCE, timeout_s):
                if _is_record(message):
                    found.append(_record(message))
        return found, {record.place[:2]: record.place.offset + 1 for record in found}

    def at(self, places: Iterable[Position]) -> dict[Position, Record]:
        """Those that are there."""
        wanted = defaultdict(set)
        for topic, partition, offset in places:
            wanted[topic, partition].add(offset)
        with self._asking():
            return {
                record.place: record
                for at, offsets in wanted.items()
                for run in _runs(sorted(offsets))
                for record in self._read_run(at, run[0], run[-1])
                if record.place.offset in offsets
            }

    def _read_run(self, at: Partition, first: int, last: int) -> Iterator[Record]:
        self._consumer.assign([TopicPartition(*at, first)])
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            for message in self._consumer.consume(_RECORDS_AT_ONCE, 0.2):
                deadline = time.monotonic() + _TIMEOUT_S
                if not _is_record(message):  # there are no more
                    return
                record = _record(message)
                if record.place.offset <= last:
                    yield record
                if record.place.offset >= last:
                    return
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            said = error.args[0].str()
            raise KafkaAwayError(f"Kafka at {self._bootstrap} does not answer: {said}") from error


def _runs(offsets: list[int]) -> Iterator[list[int]]:
    run = offsets[:1]
    for offset in offsets[1:]:
        if offset - run[-1] > _READ_OVER_MAX:
            yield run
            run = []
        run.append(offset)
    yield run


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    # a topic that was dropped has no more records, either
    ends = (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
    if error.code() in ends or error.code() == KafkaError._UNKNOWN_PARTITION:
        return False
    raise KafkaException(error)


def _record(message: Message) -> Record:
    place: Any = (message.topic(), message.partition(), message.offset())
    headers: Any = message.headers() or []
    return Record(
        Position(*place),
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        [(name, _bytes(value) or b"") for name, value in headers],
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
