"""A Kafka producer that says of each record in a batch whether the broker has it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from shared.events.envelope import Header
from shared.settings import Settings


class DeadProducerError(Exception):
    """The client gave up for good; a new producer goes on."""


class Row(Protocol):
    """A record to send; `seq` tells it from the others."""

    @property
    def seq(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...


class AckedProducer:
    def __init__(self, settings: Settings) -> None:
        self._producer = Producer(
            {
                **settings.kafka.for_librdkafka(),
                "acks": "all",
                "enable.idempotence": True,
                # as aiokafka and Spark choose: one entity, one partition, whoever writes
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "compression.type": settings.compression,
                # never: a record given up here could be overtaken by a later one of its key
                "message.timeout.ms": 0,
                # how large a record may be is for the topic to say
                "message.max.bytes": 64 * 1024 * 1024,
                "topic.metadata.propagation.max.ms": 5_000,
                "log_level": 2,
            }
        )
        self._answers: dict[int, KafkaError | None] = {}

    def send(self, rows: Sequence[Row], go_on: Callable[[], bool]) -> dict[int, str]:
        """The refusals, by seq, when every row has been answered.

        `go_on` is asked while answers are missing; on False the rest is dropped unanswered.
        """
        self._answers.clear()
        for row in rows:
            self._produce(row)
        while len(self._answers) < len(rows) and go_on():
            self._producer.poll(0.1)
        if len(self._answers) < len(rows):
            self._producer.purge()
        errors = {seq: error for seq, error in self._answers.items() if error is not None}
        for error in errors.values():
            if error.fatal():
                raise DeadProducerError(error.str())
        unanswered = {row.seq: "not acknowledged" for row in rows if row.seq not in self._answers}
        return unanswered | {seq: error.str() for seq, error in errors.items()}

    def _produce(self, row: Row) -> None:
        try:
            self._producer.produce(
                row.topic,
                row.value,
                row.key,
                headers=list(row.headers),
                on_delivery=partial(self._note, row.seq),
            )
        except KafkaException as error:
            self._answers[row.seq] = error.args[0]

    def _note(self, seq: int, error: KafkaError | None, _message: Message) -> None:
        self._answers[seq] = error
