"""Topics that a process follows for itself, from where it likes, and always to their ends."""

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from clients.kafka.ends import ANSWER_S, Partitions, offset_of
from clients.kafka.records import Offsets
from shared.kafka_access import KafkaAccess

Partition = tuple[str, int]

_ALL_S = 60.0
_WAIT_S = 0.02  # which is waited whole where less comes than asked for
_RECORDS_AT_ONCE = 10_000


class LogFollower:
    """Every call raises KafkaException where no broker answers."""

    def __init__(self, kafka: KafkaAccess, group: str, topics: Iterable[str]) -> None:
        config = {
            **kafka.for_reading(group),
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
        # one that only asks: on one that reads, too, each question would wait behind a fetch
        self._asking, self._reading = Consumer(config), Consumer(config)
        self._partitions = Partitions(self._asking, topics)
        self._next: dict[Partition, int] = {}

    def go_on_from(self, starts: Mapping[Partition, int]) -> None:
        """Of what it does not follow yet. What stands nowhere is followed from its beginning."""
        places = ((place.topic, place.partition) for place in self._partitions.all())
        new = [at for at in places if at not in self._next]
        for topic, partition in new:
            low, _ = self._asking.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
            self._next[topic, partition] = max(low, starts.get((topic, partition), low))
        if new:
            self._assign()

    def to_the_end(self, within_s: float = _ALL_S) -> Iterator[Message]:
        """All that was written until now. Where there is no time for it, the next call goes on."""
        ends = self.ends()
        self._begin_anew_where_it_was_cut(ends)
        give_up_s = time.monotonic() + within_s
        while any(self._next[at] < end for at, end in ends.items() if at in self._next):
            if time.monotonic() > give_up_s:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in self._reading.consume(_RECORDS_AT_ONCE, _WAIT_S):
                at = str(message.topic()), message.partition() or 0
                error = message.error()
                if error is None:
                    yield message
                    self._next[at] = (message.offset() or 0) + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._next[at] = message.offset() or 0  # what it skipped is compacted away
                else:
                    self._assign()  # or what it has fetched behind this would be passed over
                    raise KafkaException(error)

    def _begin_anew_where_it_was_cut(self, ends: Mapping[Partition, int]) -> None:
        """Of a topic that was made anew, for example."""
        cut = [at for at, end in ends.items() if self._next.get(at, 0) > end]
        for topic, partition in cut:
            low, _ = self._asking.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
            self._next[topic, partition] = low
        if cut:
            self._assign()

    def _assign(self) -> None:
        self._reading.assign([TopicPartition(*at, n) for at, n in self._next.items()])

    def ends(self) -> dict[Partition, int]:
        places = self._partitions.all()  # in the place of a time: the newest
        found = self._asking.offsets_for_times(places, ANSWER_S) if places else []
        return {(place.topic, place.partition): offset_of(place) for place in found}

    def offsets(self) -> Offsets:
        """How far it is."""
        found: Offsets = {}
        for (topic, partition), offset in self._next.items():
            found.setdefault(topic, {})[partition] = offset
        return found

    def close(self) -> None:
        self._asking.close()
        self._reading.close()


class CommittedOffsets:
    """How far a job is, for others to read."""

    def __init__(self, kafka: KafkaAccess, job: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(
            {
                **kafka.for_reading(f"headrace-{job}"),
                "log_level": 2,
            }
        )
        self._partitions = Partitions(self._consumer, topics)

    def read(self) -> dict[Partition, int]:
        """Where nothing is committed, 0."""
        places = self._partitions.all()
        found = self._consumer.committed(places, ANSWER_S) if places else []
        return {(place.topic, place.partition): max(0, offset_of(place)) for place in found}

    def close(self) -> None:
        self._consumer.close()
