"""What a worker process writes to Kafka for its task: all of it, before the task ends."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from clients.kafka.connect import writer
from clients.kafka.read_range import STALLED_S
from clients.kafka.records import Outgoing
from shared.errors import StalledError
from shared.kafka_access import KafkaAccess
from shared.settings import JobSettings
from shared.topic_names import RECORD_BYTES_MAX
from stream_jobs.guards.claim_watch import follow
from stream_jobs.guards.lease import check_lease

_WAIT_S = 0.5
_ROOM_WAIT_S = 0.02  # nothing tells of it when there is room again


class TopicWriter:
    """In order per partition. What is not confirmed was written up to some record, and nothing
    behind it: fold would take what comes later, in its place, for a second writing."""

    def __init__(self, job: str, kafka: KafkaAccess, compression: str) -> None:
        follow(job, kafka)
        self._job = job
        self._refused: list[KafkaError] = []
        self._kafka = kafka
        self._options = {
            # a record that is refused ends the producer, and is not passed by later ones
            "enable.gapless.guarantee": True,
            "compression.type": compression,
            "batch.size": 256 * 1024,
            # full batches; the end of a task waits for none
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 64 * 1024,
            "message.max.bytes": RECORD_BYTES_MAX,
            # never: a record given up here could be overtaken by a later one of its key
            "message.timeout.ms": 0,
            "delivery.report.only.error": True,
            "on_delivery": self._note,
        }
        self._producer = self._new()

    def _new(self) -> Producer:
        return writer(self._kafka, self._options)

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._refused.append(error)

    def send(self, record: Outgoing) -> None:
        topic, key, value, headers = record
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers)  # type: ignore[arg-type]
                return
            except BufferError:
                self._hear(self._producer.poll, _ROOM_WAIT_S)
            except KafkaException:  # of a producer that has ended
                self._hear(self._producer.poll)
                raise
            self._check()

    def send_all(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        """For half of what `send` costs, records that are in no order, as of a key each: one that
        finds no room comes after those behind it."""
        left: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in records]
        while True:
            queued = self._producer.produce_batch(topic, left)
            self._check()
            if queued == len(left):
                return
            refused = [(one, error) for one in left if (error := one.pop("_error", None))]
            for _, error in refused:
                if error.code() != KafkaError._QUEUE_FULL:
                    raise KafkaException(error)
            left = [one for one, _ in refused]
            self._hear(self._producer.poll, _ROOM_WAIT_S)

    def flush(self) -> None:
        """As long as Kafka does not answer, it waits, but not for ever: a partition alone may be
        away, of which the job's lease knows nothing."""
        self._check()
        left, moved_s = len(self._producer), time.monotonic()
        while now_left := self._hear(self._producer.flush):
            self._check()
            if now_left < left:
                left, moved_s = now_left, time.monotonic()
            elif time.monotonic() - moved_s > STALLED_S:
                raise StalledError(f"Kafka has not taken a record of {self._job} for {STALLED_S} s")
        self._check()

    def _hear(self, of_answers: Callable[[float], int], within_s: float = _WAIT_S) -> int:
        try:
            return of_answers(within_s)
        except (KafkaException, SystemError):  # the latter where several records were refused
            self._check()  # which says why the producer has ended
            raise

    def _check(self) -> None:
        if self._refused:
            raise KafkaException(self._refused[0])
        check_lease(self._job)

    @contextmanager
    def or_nothing(self) -> Iterator[None]:
        """Where a task fails, nothing more of it is written: another copy may be the one then."""
        try:
            yield
        except BaseException:
            self._producer.purge()
            self._producer = self._new()
            self._refused = []
            raise


_topic_writer = cache(TopicWriter)


class WriterOf(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    job: str
    kafka: KafkaAccess
    compression: str

    @classmethod
    def job_of(cls, job: str, settings: JobSettings) -> "WriterOf":
        return cls(job, settings.kafka, settings.compression)

    def __call__(self) -> TopicWriter:
        return _topic_writer(*self)
