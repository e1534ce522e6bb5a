"""A job's progress, published as the committed offsets of a consumer group, and its lag.

Spark keeps its own offsets; this copy is what usual tools see, and what a rebuild starts from. It
is written after the batch's output is acknowledged, so it never runs ahead. Its metadata is a note
for other copies of the job (`single_copy.py`).

By a consumer, not by an admin client: librdkafka's admin requests to a coordinator that goes away
can abort the whole process (`rd_kafka_enq_once_del_source_return: Assertion ... failed`).
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from clients.kafka.records import Offsets
from shared.settings import Settings

_TIMEOUT_S = 5.0

Partition = tuple[str, int]


class Range(NamedTuple):
    start: int
    end: int


class Committed(NamedTuple):
    """Of every partition of the job's topics: where it goes on, or where the log begins."""

    offsets: Offsets
    notes: set[str]
    # of topics that had offsets before they got more partitions: those that have none
    added: dict[str, set[int]] = {}  # noqa: RUF012 - never changed


class GroupOffsets:
    def __init__(self, settings: Settings, job: str, topics: Sequence[str] = ()) -> None:
        self.topics = topics
        self._answers: list[KafkaError | None] = []
        self._consumer = Consumer(
            {
                **settings.kafka.for_reading(f"headrace-{job}"),
                "on_commit": lambda error, _places: self._answers.append(error),
                "log_level": 2,
            }
        )

    def commit(self, offsets: Offsets, note: str) -> None:
        """Raises KafkaException where the broker has not confirmed it in time."""
        self._answers.clear()
        self._consumer.commit(
            offsets=[
                TopicPartition(topic, partition, offset, note)
                for topic, partitions in offsets.items()
                for partition, offset in partitions.items()
            ],
            asynchronous=True,
        )
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._answers:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._consumer.poll(0.05)
        if self._answers[0] is not None:
            raise KafkaException(self._answers[0])

    def committed(self) -> Committed:
        found = Committed({}, set(), {})
        known: set[str] = set()
        for place in self._consumer.committed(self._partitions(self.topics), _TIMEOUT_S):
            if place.error is not None:
                raise KafkaException(place.error)
            at = place.offset
            if at >= 0:
                known.add(place.topic)
                found.notes.add(place.metadata or "")
            else:
                found.added.setdefault(place.topic, set()).add(place.partition)
                at, _ = self._consumer.get_watermark_offsets(place, _TIMEOUT_S)
            found.offsets.setdefault(place.topic, {})[place.partition] = at
        added = {topic: its for topic, its in found.added.items() if topic in known}
        return found._replace(added=added)

    def ranges(self) -> dict[Partition, Range]:
        """Where the partitions of the job's topics begin and end."""
        return {
            (at.topic, at.partition): Range(*self._consumer.get_watermark_offsets(at, _TIMEOUT_S))
            for at in self._partitions(self.topics)
        }

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Of those that exist."""
        known = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    def ever_written(self, topics: Sequence[str]) -> int:
        """Records, those included that compaction has taken away."""
        places = self._partitions(topics)
        return sum(self._consumer.get_watermark_offsets(at, _TIMEOUT_S)[1] for at in places)

    def close(self) -> None:
        self._consumer.close()

    def _partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        known = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        return [
            TopicPartition(topic, partition)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        ]
