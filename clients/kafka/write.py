"""Records that are written when the broker has said so, of each."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message

from clients.kafka.connect import Options, writer
from shared.events.envelope import Header
from shared.kafka_access import KafkaAccess, KafkaAwayError

_AT_ONCE = 10_000
_WITHIN_S = 60.0
_NOW_S = 15.0


class Sendable(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...


class DeadProducerError(Exception):
    """The client gave up for good; a new one goes on."""


class AckedWriter:
    def __init__(self, kafka: KafkaAccess, options: Options | None = None) -> None:
        # never: a record given up here could be overtaken by a later one of its key
        self._producer = writer(kafka, {"message.timeout.ms": 0, **(options or {})})

    def send(self, records: Iterable[Sendable], go_on: Callable[[], bool]) -> dict[int, str]:
        """The refusals, by the number of the record, when every record has been answered.

        `go_on` is asked while answers are missing; on False the rest is dropped unanswered.
        """
        unanswered: set[int] = set()
        errors: dict[int, KafkaError] = {}

        def note(number: int, error: KafkaError | None, _message: Message) -> None:
            unanswered.discard(number)
            if error is not None:
                errors[number] = error

        for number, record in enumerate(records):
            unanswered.add(number)
            try:
                while not self._takes(record, partial(note, number)) and go_on():
                    self._producer.poll(0.1)
            except KafkaException as refused:
                unanswered.discard(number)
                errors[number] = refused.args[0]
        while unanswered and go_on():
            self._producer.poll(0.1)
        if unanswered:
            self._producer.purge()
        for error in errors.values():
            if error.fatal():
                raise DeadProducerError(error.str())
        refusals = {number: error.str() for number, error in errors.items()}
        return dict.fromkeys(unanswered, "not acknowledged") | refusals

    def _takes(self, record: Sendable, note: Callable[[KafkaError | None, Message], None]) -> bool:
        """False: it holds as many as it may."""
        headers: list[tuple[str, str | bytes | None]] = list(record.headers)
        try:
            self._producer.produce(
                record.topic, record.value, record.key, headers=headers, on_delivery=note
            )
        except BufferError:
            return False
        self._producer.poll(0)
        return True


def for_at_most(seconds: float) -> Callable[[], bool]:
    """What `send` may be given to ask."""
    until_s = time.monotonic() + seconds
    return lambda: time.monotonic() < until_s


def write_now(kafka: KafkaAccess, *records: Sendable) -> None:
    """KafkaAwayError unless it has confirmed all of them, soon."""
    if refusals := AckedWriter(kafka).send(records, for_at_most(_NOW_S)):
        why = refusals[min(refusals)]
        raise KafkaAwayError(f"Kafka at {kafka.bootstrap} did not take it: {why}")


def publish(kafka: KafkaAccess, records: Iterable[Sendable]) -> int:
    """How many; RuntimeError unless Kafka has confirmed all of them."""
    left, count, sender = iter(records), 0, AckedWriter(kafka)
    while some := list(islice(left, _AT_ONCE)):
        count += len(some)
        if refusals := sender.send(some, for_at_most(_WITHIN_S)):
            why = refusals[min(refusals)]
            raise RuntimeError(f"{len(refusals)} of {count} records are not published: {why}")
    return count
