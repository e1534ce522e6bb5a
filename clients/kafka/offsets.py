"""Where logs begin and end, and how far a consumer group is.

Spark keeps its own offsets; a job publishes its progress as the committed offsets of a group. That
is what usual tools see, what a rebuild starts from, and a note for other copies of the job
(`guards/single_copy.py`). It is written after the batch's output is acknowledged, so it never runs
ahead.

Asked by a consumer, not by an admin client: see `connect.admin`.
"""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]

from clients.kafka.connect import Options, asker
from clients.kafka.messages import ASK_AGAIN_S, WITHOUT_LEADER
from clients.kafka.records import Offsets, Partition, Range, by_partition
from shared.kafka_access import KafkaAccess

_ANSWER_S = 5.0
_NEW_PARTITIONS_S = 10.0
_UNHEARD = KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN
MADE_ANEW_AFTER_S = 20.0
_WITHOUT_COORDINATOR = (
    *(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE),
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
# where somebody waits for the answer
ANSWERS_SOON = {"socket.timeout.ms": 2000, "reconnect.backoff.max.ms": 1000}


_Told = tuple[Partition, int, str | None]  # of a commit: a job's own may differ by the note alone


class Committed(NamedTuple):
    """Where the group goes on in every partition of its topics, or where the log begins."""

    offsets: Offsets
    notes: set[str]
    # of topics that had offsets before they got more partitions: those that have none
    added: dict[str, set[int]] = {}  # noqa: RUF012 - never changed


class LogOffsets:
    """Every call raises KafkaException where no broker answers in time."""

    def __init__(
        self,
        kafka: KafkaAccess,
        group: str,
        topics: Iterable[str] = (),
        answer_s: float = _ANSWER_S,
        options: Options | None = None,
    ) -> None:
        """`options`: of librdkafka."""
        self.topics = tuple(topics)
        self._answer_s = answer_s
        self._asker = partial(asker, kafka, group)
        self._options = options or {}
        self._consumer = self._made()
        self._silent_since_s: float | None = None
        self._known: list[Partition] = []
        self._look_again_s = 0.0

    def _made(self) -> Consumer:
        # of its own commits alone: a late answer must not pass for that of the next client's
        self._answers = answers = list[tuple[set[_Told], KafkaError | None]]()
        heard = {"on_commit": lambda error, of: answers.append((_told(of), error))}
        return self._asker({**heard, **self._options})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def metadata(self) -> Mapping[str, TopicMetadata]:
        """What the broker says of all topics that this client may know."""
        with self._heard():
            topics: Mapping[str, TopicMetadata] = self._consumer.list_topics(
                timeout=self._answer_s
            ).topics
        return topics

    def partitions(self, topics: Iterable[str] | None = None) -> list[Partition]:
        """The partitions of those topics that exist. The client's own topics are looked up now and
        then."""
        if topics is not None:
            return self._partitions(topics)
        if time.monotonic() >= self._look_again_s or not self._known:
            self._known = self._partitions(self.topics)
            self._look_again_s = time.monotonic() + _NEW_PARTITIONS_S
        return self._known

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each of these topics has; those that do not exist are left out."""
        known = self.metadata()
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    def begins(self, places: Collection[Partition] | None = None) -> dict[Partition, int]:
        return self._found(places, OFFSET_BEGINNING)

    def ends(self, places: Collection[Partition] | None = None) -> dict[Partition, int]:
        return self._found(places, OFFSET_END)

    def ranges(self, places: Collection[Partition] | None = None) -> dict[Partition, Range]:
        places = self.partitions(self.topics) if places is None else places
        begins, ends = self.begins(places), self.ends(places)
        return {at: Range(begins[at], end) for at, end in ends.items()}

    def since(self, times_ms: Mapping[Partition, int]) -> dict[Partition, int | None]:
        """The first record that is as new; None: there is none."""
        places = [TopicPartition(*at, time_ms) for at, time_ms in times_ms.items()]
        found = self._offsets_for(places)
        return {at: offset if offset >= 0 else None for at, offset in found.items()}

    def committed(self) -> Committed:
        found = Committed({}, set(), {})
        known: set[str] = set()
        places = self._committed(self.partitions(self.topics))
        begins = self.begins([(at.topic, at.partition) for at in places if at.offset < 0])
        for place in places:
            if place.offset >= 0:
                known.add(place.topic)
                found.notes.add(place.metadata or "")
            else:
                found.added.setdefault(place.topic, set()).add(place.partition)
            goes_on_at = begins.get((place.topic, place.partition), place.offset)
            found.offsets.setdefault(place.topic, {})[place.partition] = goes_on_at
        added = {topic: its for topic, its in found.added.items() if topic in known}
        return found._replace(added=added)

    def known_positions(self, places: Collection[Partition] | None = None) -> dict[Partition, int]:
        """Where the group goes on, in those partitions where anything is committed. Kafka drops
        what is `offsets.retention.minutes` old."""
        found = self._committed(self.partitions(self.topics) if places is None else places)
        return {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}

    def positions(self, places: Collection[Partition] | None = None) -> dict[Partition, int]:
        """What is committed; where nothing is, 0."""
        found = self._committed(self.partitions() if places is None else places)
        return {(place.topic, place.partition): max(0, int(place.offset)) for place in found}

    def commit(self, offsets: Offsets, note: str) -> None:
        """Returns when the broker has confirmed it: this one, and not a late one before it."""
        self._answers.clear()
        places = [TopicPartition(*at, offset, note) for at, offset in by_partition(offsets).items()]
        told = _told(places)
        with self._heard():
            self._consumer.commit(offsets=places, asynchronous=True)
            deadline = time.monotonic() + self._answer_s
            while not (answers := [error for of, error in self._answers if of == told]):
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                self._consumer.poll(0.05)
            if answers[0] is not None:
                raise KafkaException(answers[0])

    def hear_errors(self) -> None:
        """Calls the `error_cb` of the options."""
        self._consumer.poll(0)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """A client may not find its way back to a broker that was frozen, while others have: one
        that has heard nothing for long gives way to a new one."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() in _UNHEARD:
                now_s = time.monotonic()
                if self._silent_since_s is None:
                    self._silent_since_s = now_s
                elif now_s - self._silent_since_s > MADE_ANEW_AFTER_S:
                    self._consumer.poll(0)  # what it has still to say, such as a refused login
                    stuck, self._consumer = self._consumer, self._made()
                    self._silent_since_s = None
                    # which waits for its last commit, up to a minute
                    threading.Thread(target=stuck.close, daemon=True).start()
            raise
        self._silent_since_s = None

    def _partitions(self, topics: Iterable[str]) -> list[Partition]:
        known = self.metadata()
        return [(topic, p) for topic in topics if topic in known for p in known[topic].partitions]

    def _found(self, places: Collection[Partition] | None, which: int) -> dict[Partition, int]:
        # in the place of a time: the oldest or the newest; one request a broker answers for all
        places = self.partitions() if places is None else places
        return self._offsets_for([TopicPartition(*at, which) for at in places])

    def _offsets_for(self, places: list[TopicPartition]) -> dict[Partition, int]:
        give_up_s = time.monotonic() + self._answer_s
        while places:
            is_late = time.monotonic() > give_up_s
            try:
                with self._heard():
                    found = self._consumer.offsets_for_times(places, self._answer_s)
            except KafkaException as error:  # where it is so of all of them
                if is_late or error.args[0].code() not in WITHOUT_LEADER:
                    raise
            else:
                if is_late or not any(_has_no_leader(place) for place in found):
                    return {(place.topic, place.partition): _offset(place) for place in found}
            time.sleep(ASK_AGAIN_S)
        return {}

    def _committed(self, places: Collection[Partition]) -> list[TopicPartition]:
        """A group that nobody has asked for since the broker began has no coordinator at first."""
        asked = [TopicPartition(*at) for at in places]
        give_up_s = time.monotonic() + self._answer_s
        while asked:
            try:
                with self._heard():
                    found: list[TopicPartition] = self._consumer.committed(asked, self._answer_s)
            except KafkaException as error:
                is_late = time.monotonic() > give_up_s
                if is_late or error.args[0].code() not in _WITHOUT_COORDINATOR:
                    raise
                time.sleep(ASK_AGAIN_S)
            else:
                for place in found:
                    _offset(place)
                return found
        return []


def _told(places: Iterable[TopicPartition]) -> set[_Told]:
    return {((at.topic, at.partition), at.offset, at.metadata) for at in places}


def _has_no_leader(place: TopicPartition) -> bool:
    return place.error is not None and place.error.code() in WITHOUT_LEADER


def _offset(place: TopicPartition) -> int:
    if place.error is not None:
        raise KafkaException(place.error)
    return int(place.offset)
