"""Whether the topics of a job are those that it worked with before: by their ids, by what is still
in them, and by how many partitions they have."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from clients.kafka.offsets import LogOffsets
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.guards.partition_counts import Counts, PartitionCounts
from stream_jobs.guards.topic_identity import TopicIdentityCheck, topic_ids
from stream_jobs.guards.widened_topics import WidenedTopics

_COUNT_EVERY_S = 5.0


class _Found(NamedTuple):
    ids: Mapping[str, str]
    counts: Counts


class SameTopics:
    """KafkaException where Kafka does not answer, OtherLogError where the job must not go on."""

    def __init__(
        self,
        job: str,
        settings: JobSettings,
        checkpoint: CheckpointFolder,
        offsets: LogOffsets,
        uses: Collection[str],
    ) -> None:
        """`uses`: what it writes, too."""
        self._settings, self._offsets = settings, offsets
        self._uses = {*offsets.topics, *uses}
        self._identity = TopicIdentityCheck(job, checkpoint, offsets.topics)
        widened = WidenedTopics(settings.state_dir, settings.widened_topics)
        self._counts = PartitionCounts(job, checkpoint, widened)
        self._count_at_s = 0.0

    def check(self, committed: Counts) -> _Found:
        """Before the job goes on."""
        ids = topic_ids(self._settings, sorted(self._uses))
        self._identity.check(self._read(ids), self._offsets.ranges())
        counts = self._offsets.partition_counts(self._uses)
        self._counts.check(ids, counts, committed)
        return _Found(ids, counts)

    def remember(self, found: _Found) -> None:
        """What it goes on with."""
        self._identity.remember(self._read(found.ids))
        self._counts.remember(found.ids, found.counts)

    def check_counts(self, now_s: float) -> None:
        """Now and then, while it works."""
        if now_s >= self._count_at_s:
            self._count_at_s = now_s + _COUNT_EVERY_S
            self._counts.check_in_use(self._offsets.partition_counts(self._uses))

    def _read(self, ids: Mapping[str, str]) -> dict[str, str]:
        return {topic: ids[topic] for topic in self._offsets.topics if topic in ids}
