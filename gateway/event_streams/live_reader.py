"""The ends of all event topics, read by one thread for all streams of this process."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import ANOTHER_LOG, is_end, position_of
from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from gateway.event_streams.recent_events import EventEntry
from gateway.streams.log_position import Layout
from shared.consumer_groups import VIEW
from shared.kafka_access import KafkaAccess

log = logging.getLogger(__name__)

OPTIONS = {"fetch.wait.max.ms": 50, "queued.max.messages.kbytes": 8192}
ANSWER_S = 2.0
# Not an answer for each event: 500 a second make three times as much garbage in the broker, and all
# that it writes waits while that is collected.
_LIVE = {**OPTIONS, "fetch.min.bytes": 64 * 1024, "fetch.wait.max.ms": 20}
_WAITS_S = 0.25
_GATHERS_S = 0.005  # so that a round has several records
_AT_ONCE = 200
_BATCHES_MAX = 4  # read, and not yet given to the streams
_LOOK_AT_TOPICS_EVERY_S = 30.0


class Begun(NamedTuple):
    layout: Layout
    begins: list[int]  # where it reads on from


class Batch(NamedTuple):
    entries: list[EventEntry]
    passed: dict[int, int]  # place -> offset behind what there is, shown or not


class LogChanged(Exception):  # noqa: N818 - it is what was seen
    """The positions that streams have are of another log."""


Tell = Callable[["Begun | Batch | Exception"], None]


class LiveReader:
    def __init__(self, kafka: KafkaAccess, topics: Iterable[str], tell: Tell) -> None:
        """`tell` hears in this thread how it begins, each batch, and why it has ended."""
        self._kafka = kafka
        self._topics = [*topics]
        self._tell = tell
        self._room = threading.Semaphore(_BATCHES_MAX)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event streams", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._room.release()

    def batch_is_done(self) -> None:
        self._room.release()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            if isinstance(error, (KafkaException, LogChanged)):
                log.warning("the event topics cannot be followed: %s", error)
            else:
                log.exception("the event topics cannot be followed")
            self._tell(error)

    def _follow(self) -> None:
        with LogOffsets(
            self._kafka, VIEW, self._topics, answer_s=ANSWER_S, options=ANSWERS_SOON
        ) as offsets:
            layout = Layout(offsets.partition_counts(self._topics))
            ends = offsets.ends(layout.partitions)
            reading = reader(self._kafka, VIEW, _LIVE)
            try:
                reading.assign([TopicPartition(*at, ends[at]) for at in layout.partitions])
                self._tell(Begun(layout, [ends[at] for at in layout.partitions]))
                look_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
                while not self._ends.is_set():
                    self._read(reading, layout)
                    if time.monotonic() >= look_s:
                        look_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
                        self._look_at_topics(offsets, layout)
            finally:
                reading.close()

    def _look_at_topics(self, offsets: LogOffsets, layout: Layout) -> None:
        try:
            counts = offsets.partition_counts(self._topics)
        except KafkaException:
            return  # it is away: whoever reads waits
        if counts != {topic: len(its) for topic, its in layout.places_of.items()}:
            raise LogChanged("there are other partitions")

    def _read(self, reading: Consumer, layout: Layout) -> None:
        found = reading.consume(1, _WAITS_S)
        if found:
            found += reading.consume(_AT_ONCE - 1, _GATHERS_S)
        batch = batch_of(found, layout)
        if batch.passed:
            self._room.acquire()
            self._tell(batch)


def batch_of(messages: Iterable[Message], layout: Layout) -> Batch:
    batch = Batch([], {})
    for message in messages:
        if message.error() is not None and message.topic() is None:
            continue  # of the connection: the client goes on trying
        try:
            ends = is_end(message)
        except KafkaException as error:
            if error.args[0].code() in ANOTHER_LOG:
                raise LogChanged(str(error)) from error
            raise
        position = position_of(message)
        place = layout.place_of[position.topic, position.partition]
        batch.passed[place] = position.offset + (not ends)
        if not ends and (key := message.key()) is not None:
            batch.entries.append(EventEntry(place, position, key, message.value() or b""))
    return batch
