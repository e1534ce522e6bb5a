"""A job's progress, published as the committed offsets of a consumer group, and its lag.

Spark keeps its own offsets; this copy is what usual tools see, and what a rebuild starts from. It
is written after the batch's output is acknowledged, so it never runs ahead.
"""

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from shared.settings import Settings

_TIMEOUT_S = 5.0
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

Offsets = dict[str, dict[int, int]]


class GroupOffsets:
    def __init__(self, settings: Settings, job: str) -> None:
        self.group = f"headrace-{job}"
        self._admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 2})

    def commit(self, offsets: Offsets) -> None:
        places = [
            TopicPartition(topic, partition, offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        ]
        if places:
            request = [ConsumerGroupTopicPartitions(self.group, places)]
            answers = self._admin.alter_consumer_group_offsets(request, request_timeout=_TIMEOUT_S)
            for answer in answers.values():
                answer.result()

    def lag_records(self, topics: list[str]) -> int:
        """How many records the job has not finished, over all partitions of these topics."""
        asked = [ConsumerGroupTopicPartitions(self.group)]
        answers = self._admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT_S)
        done = {
            (place.topic, place.partition): place.offset
            for answer in answers.values()
            for place in answer.result().topic_partitions
        }
        ends = self._offsets(topics, _LATEST)
        starts = self._offsets(topics, _EARLIEST)
        return sum(end - max(done.get(place, 0), starts[place]) for place, end in ends.items())

    def _offsets(self, topics: list[str], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        known = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        ]
        answers = self._admin.list_offsets(dict.fromkeys(places, spec), request_timeout=_TIMEOUT_S)
        return {
            (str(place.topic), place.partition): answer.result().offset
            for place, answer in answers.items()
        }
