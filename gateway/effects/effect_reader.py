"""The ends of the logs that tell what becomes of payloads, read by one thread for all who wait in
this process. Nobody pays for it before the first of them comes."""

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import headers_of, position_of
from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from gateway.effects.record_effects import Listener, Told
from shared.consumer_groups import VIEW
from shared.kafka_access import KafkaAccess

log = logging.getLogger(__name__)

_OPTIONS = {
    "enable.partition.eof": False,
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 8192,
}
_ANSWER_S = 2.0
_WAITS_S = 0.25
_AT_ONCE = 200
_LOOK_AT_TOPICS_EVERY_S = 30.0


class Begun:
    """What is written from now on is heard."""


Tell = Callable[[Begun | list[Told] | Exception], None]


class LogChanged(Exception):  # noqa: N818 - it is what was seen
    pass


class EffectReader:
    def __init__(self, kafka: KafkaAccess, listener: Listener, tell: Tell) -> None:
        """`tell` hears, in this thread, that it has begun, what it finds, and why it has ended."""
        self._kafka = kafka
        self._listener = listener
        self._tell = tell
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="effects", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            if isinstance(error, (KafkaException, LogChanged)):
                log.warning("what becomes of payloads cannot be followed: %s", error)
            else:
                log.exception("what becomes of payloads cannot be followed")
            self._tell(error)

    def _follow(self) -> None:
        topics = self._listener.topics
        with LogOffsets(self._kafka, VIEW, topics, _ANSWER_S, ANSWERS_SOON) as offsets:
            counts = offsets.partition_counts(topics)
            places = [(topic, p) for topic, count in counts.items() for p in range(count)]
            ends = offsets.ends(places)
            reading = reader(self._kafka, VIEW, _OPTIONS)
            try:
                reading.assign([TopicPartition(*at, end) for at, end in ends.items()])
                self._tell(Begun())
                look_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
                while not self._ends.is_set():
                    self._read(reading)
                    if time.monotonic() >= look_s:
                        look_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
                        self._look_at_topics(offsets, counts)
            finally:
                reading.close()

    def _look_at_topics(self, offsets: LogOffsets, counts: dict[str, int]) -> None:
        try:
            now = offsets.partition_counts(self._listener.topics)
        except KafkaException:
            return  # it is away: whoever waits goes on waiting
        if now != counts:
            raise LogChanged("there are other partitions")

    def _read(self, reading: Consumer) -> None:
        found = reading.consume(1, _WAITS_S)
        if found:
            found += reading.consume(_AT_ONCE - 1, 0)
        heard = [told for one in found if (told := self._hear(one)) is not None]
        if heard:
            self._tell(heard)

    def _hear(self, message: Message) -> Told | None:
        error = message.error()
        if error is not None:
            if message.topic() is None and not error.fatal():
                return None  # of the connection: the client goes on trying
            raise KafkaException(error)
        if not self._listener.ids:
            return None
        headers = headers_of(message) or []
        return self._listener.hear(position_of(message), headers, message.value() or b"")
