"""Where the partitions of topics begin and end."""

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

from clients.kafka.records import Offsets
from shared.kafka_access import KafkaAccess

ANSWER_S = 5.0
_NEW_PARTITIONS_S = 30.0


class Partitions:
    """Of topics; asked for again now and then, for there may be more."""

    def __init__(self, consumer: Consumer, topics: Iterable[str]) -> None:
        self._consumer, self._topics = consumer, tuple(topics)
        self._known: list[tuple[str, int]] = []
        self._look_again_s = 0.0

    def all(self, offset: int = OFFSET_END) -> list[TopicPartition]:
        if time.monotonic() >= self._look_again_s or not self._known:
            known = self._consumer.list_topics(timeout=ANSWER_S).topics
            there = [topic for topic in self._topics if topic in known]
            self._known = [(topic, number) for topic in there for number in known[topic].partitions]
            self._look_again_s = time.monotonic() + _NEW_PARTITIONS_S
        return [TopicPartition(*at, offset) for at in self._known]


class LogEnds:
    """Every call raises KafkaException where no broker answers."""

    def __init__(self, kafka: KafkaAccess, group: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(
            {
                **kafka.for_reading(group),
                "log_level": 2,
            }
        )
        self._partitions = Partitions(self._consumer, topics)

    def begins(self) -> Offsets:
        return self._offsets(OFFSET_BEGINNING)

    def ends(self) -> Offsets:
        return self._offsets(OFFSET_END)

    def _offsets(self, which: int) -> Offsets:
        places = self._partitions.all(which)  # in the place of a time: the oldest or the newest
        found: Offsets = {}
        for place in self._consumer.offsets_for_times(places, ANSWER_S) if places else []:
            found.setdefault(place.topic, {})[place.partition] = offset_of(place)
        return found

    def close(self) -> None:
        self._consumer.close()


def offset_of(place: TopicPartition) -> int:
    if place.error is not None:
        raise KafkaException(place.error)
    return int(place.offset)
