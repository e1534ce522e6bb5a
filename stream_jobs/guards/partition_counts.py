"""Whether the topics of a job have as many partitions as when it came to use them.

With more of them an entity's next record goes elsewhere than its last one: their order is lost, and
of a compacted topic the old one stays for ever. Nothing can take partitions away again, so a person
has to decide. What is known stands beside the checkpoint and outlives it; of what the job reads,
its committed offsets tell it, too.
"""

from collections.abc import Mapping

import orjson

from shared.errors import OtherLogError
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, replace
from stream_jobs.guards.widened_topics import WidenedTopics

Counts = Mapping[str, int]


class PartitionCounts:
    def __init__(self, job: str, checkpoint: CheckpointFolder, widened: WidenedTopics) -> None:
        self._job = job
        self._file = checkpoint.with_name(f"{checkpoint.name}.partitions.json")
        self._widened = widened
        self._in_use: Counts = {}

    def check(self, ids: Mapping[str, str], now: Counts, committed: Counts) -> None:
        """Before the job goes on. OtherLogError where it must not. `committed`: of topics with
        offsets for some of their partitions alone, for how many."""
        known = {topic: count for topic, (its_id, count) in self._known().items()
                 if its_id == ids.get(topic)}  # fmt: skip
        self._refuse({**committed, **known}, now)

    def check_in_use(self, now: Counts) -> None:
        """While the job works. What was accepted is what it works with from now on."""
        self._refuse(self._in_use, now)
        its = self._in_use.items()
        self._in_use = {topic: max(count, now.get(topic, 0)) for topic, count in its}

    def remember(self, ids: Mapping[str, str], now: Counts) -> None:
        """Notes how many partitions the job works with."""
        self._in_use = dict(now)
        told = {**self._known(), **{topic: (ids[topic], now[topic]) for topic in ids.keys() & now}}
        if told != self._known():
            replace(self._file, orjson.dumps(told))

    def _refuse(self, known: Counts, now: Counts) -> None:
        for topic, before in known.items():
            count = now.get(topic, before)
            if count > before and not self._widened.accepts(topic, count):
                raise OtherLogError(
                    f"TOPIC_WIDENED: {topic} had {before} partitions and has {count} now, so an "
                    f"entity's next records go elsewhere than its last ones. {self._job} stays "
                    "down and loses nothing; docs/operations.md says what to do, of TOPIC_WIDENED",
                    {},
                )

    def _known(self) -> dict[str, tuple[str, int]]:
        try:
            told = orjson.loads(self._file.read_bytes())
            return {topic: (str(its_id), int(count)) for topic, (its_id, count) in told.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
