"""Whether the topics that a job goes on reading are the ones that its checkpoint speaks of.

Spark stops where an offset is no longer there. What it cannot see is a topic that was made anew
and has grown past that offset: so the ids of topics are kept in the checkpoint's folder.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import orjson

from clients.kafka import connect
from clients.kafka import topic_ids as ids
from clients.kafka.records import Offsets, Partition, Range
from shared.errors import OtherLogError
from shared.settings import Settings
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, replace
from stream_jobs.guards.checkpoint_offsets import (
    ahead_at,
    begins_at,
    further,
    offsets_of,
    seal,
    unseal,
)

_ANSWER_S = 5.0


class _Finding(NamedTuple):
    name: str
    about: str
    topic: str
    partitions: Iterable[int]


class TopicIdentityCheck:
    def __init__(self, job: str, checkpoint: CheckpointFolder, reads: Iterable[str]) -> None:
        """`reads`: of topics that the job no longer reads nothing is to be known."""
        self._job = job
        self._reads = frozenset(reads)
        self._checkpoint = checkpoint
        self._file = checkpoint / "topic_ids.json"

    def check(self, ids: Mapping[str, str], ranges: Mapping[Partition, Range]) -> None:
        """OtherLogError where the job must not go on from its checkpoint."""
        findings = [*self._other_topics(ids, ranges), *self._gone_records(ranges)]
        if not findings:
            return
        begin_at: Offsets = {}
        for _, _, topic, partitions in findings:
            starts = {p: ranges[topic, p].start for p in partitions}
            begin_at[topic] = {**begin_at.get(topic, {}), **starts}
        name, about, *_ = findings[0]
        raise OtherLogError(
            f"{name}: {about}. {self._job} stays down and skips nothing. Bring back what is "
            f"missing, or, if it is given up, do what docs/operations.md says of {name}; the "
            f"checkpoint is {self._checkpoint}",
            begin_at,
        )

    def _other_topics(
        self, ids: Mapping[str, str], ranges: Mapping[Partition, Range]
    ) -> Iterator[_Finding]:
        for topic, known in self._known().items():
            if topic not in ids:
                yield _Finding("TOPIC_GONE", f"{topic} is not there any more", topic, ())
            elif ids[topic] != known:
                about = f"{topic} was deleted and made anew (its id was {known}, is {ids[topic]})"
                partitions = [partition for name, partition in ranges if name == topic]
                yield _Finding("TOPIC_RECREATED", about, topic, partitions)

    def _gone_records(self, ranges: Mapping[Partition, Range]) -> Iterator[_Finding]:
        ahead = ahead_at(self._checkpoint)
        read = [further(known, ahead) for known in offsets_of(self._checkpoint)]
        begun = begins_at(self._checkpoint)
        for (topic, p), log in ranges.items():
            done, planned = (of.get(topic, {}).get(p) for of in read)
            if done is None and begun is not None:  # no batch of it is finished
                # a topic that the flow has come to read is read from its first record
                done = begun.get(topic, {}).get(p, 0)
            if done is not None and done < log.start:
                gone = f"{log.start - done} records of {topic}/{p}, from offset {done} on, are gone"
                yield _Finding("RECORDS_EXPIRED", f"{gone} before it has read them", topic, [p])
            elif planned is not None and planned > log.end:
                cut = f"{topic}/{p} ends at offset {log.end}, it has read to {planned}"
                yield _Finding("TOPIC_CUT", cut, topic, [p])

    def remember(self, ids: Mapping[str, str]) -> None:
        """Notes the topics of a checkpoint that the query has begun or gone on with."""
        told = {**ids, **self._known()}
        if told.keys() != self._written().keys():
            replace(self._file, seal(orjson.dumps(told)))

    def _known(self) -> dict[str, str]:
        return {topic: its for topic, its in self._written().items() if topic in self._reads}

    def _written(self) -> dict[str, str]:
        """Nothing where its disk has changed it: that is no sign of another topic."""
        try:
            known = orjson.loads(unseal(self._file.read_bytes()))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def topic_ids(settings: Settings, topics: Sequence[str]) -> dict[str, str]:
    """The ids of those topics that exist. KafkaException where the broker does not answer. A client
    that aborts its process does it here, before anything has begun."""
    found = ids.topic_ids(connect.admin(settings.kafka), topics, _ANSWER_S)
    return {topic: its.id for topic, its in found.items()}
