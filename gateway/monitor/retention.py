"""How near to its deletion the oldest record is that a job has yet to read. The rule, pure; and the
look at Kafka that it needs."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from clients.kafka.records import Partition, Range, by_partition
from gateway.monitor.causes import BECAUSE, KAFKA
from gateway.monitor.kafka_facts import KafkaFacts
from shared.consumer_groups import of_job
from shared.kafka_access import KafkaAccess

WARN_AT, FAIL_AT = 0.5, 0.9  # of what the topic keeps
_ANSWER_S = 2.0


class Keeps(NamedTuple):
    """What a topic keeps; None: without end."""

    ms: int | None
    bytes: int | None


class Unread(NamedTuple):
    """The oldest record of a partition that a job has yet to read, and how near its end is."""

    job: str
    topic: str
    partition: int
    share: float  # of what the topic keeps, in time or in bytes; 1: it is gone, or may go any time


def keeps(config: Mapping[str, str]) -> Keeps | None:
    """None where nothing is deleted by its age."""
    if "delete" not in config.get("cleanup.policy", "delete"):
        return None
    kept = Keeps(_limit(config.get("retention.ms")), _limit(config.get("retention.bytes")))
    return None if kept == (None, None) else kept


def share_of_bytes(at: int, log: Range, log_bytes: int, bytes_max: int) -> float:
    """What is unread, of what the log may have. Its records count as equally large."""
    records = log.end - log.start
    return log_bytes * (log.end - at) / records / bytes_max if records and bytes_max else 0.0


def share(
    committed: int | None,
    log: Range,
    older: Mapping[float, int],
    log_bytes: int | None,
    kept: Keeps,
) -> float:
    """`older`: for a share of the time that is kept, the first record that is not as old."""
    if committed is not None and committed < log.start:
        return 1.0
    at = log.start if committed is None else committed
    if at >= log.end:
        return 0.0
    of_time = max((part for part, first in older.items() if at < first), default=0.0)
    if kept.bytes is None or log_bytes is None:
        return of_time
    return min(1.0, max(of_time, share_of_bytes(at, log, log_bytes, kept.bytes)))


class RetentionLook:
    def __init__(self, kafka: KafkaAccess, jobs: Mapping[str, Sequence[str]]) -> None:
        """`jobs`: what each of them reads."""
        self._kafka = kafka
        self._jobs = jobs

    def look(self, facts: KafkaFacts, partitions: Mapping[str, Iterable[int]]) -> list[Unread]:
        """KafkaException where Kafka does not answer in time."""
        found: list[Unread] = []
        for job, topics in self._jobs.items():
            kept = {topic: keeps(facts.configs.get(topic, {})) for topic in topics}
            its = {
                (topic, p): known
                for topic, known in kept.items()
                if known is not None and topic in facts.configs
                for p in partitions.get(topic, ())
            }
            if its:
                found += self._of_job(job, its, facts)
        return found

    def _of_job(
        self, job: str, its: Mapping[Partition, Keeps], facts: KafkaFacts
    ) -> Iterable[Unread]:
        # a client for a moment: as many as there are jobs would cost memory all the time
        topics = {topic for topic, _ in its}
        with LogOffsets(self._kafka, of_job(job), topics, _ANSWER_S, ANSWERS_SOON) as log:
            logs = log.ranges(its)
            done = by_partition(log.committed().offsets)  # where nothing is, the log's beginning
            older = {part: _not_older(log, its, logs, part) for part in (WARN_AT, FAIL_AT)}
        for at, kept in its.items():
            firsts = {part: first[at] for part, first in older.items() if at in first}
            size = facts.log_bytes.get(at)
            yield Unread(job, *at, share(done.get(at), logs[at], firsts, size, kept))


def _not_older(
    log: LogOffsets, its: Mapping[Partition, Keeps], logs: Mapping[Partition, Range], part: float
) -> dict[Partition, int]:
    """The first record that has not been there for this part of its time."""
    now_ms = time.time_ns() // 1_000_000
    since = {at: int(now_ms - part * kept.ms) for at, kept in its.items() if kept.ms is not None}
    found = log.since(since)
    return {at: logs[at].end if first is None else first for at, first in found.items()}


def _limit(told: str | None) -> int | None:
    return int(told) if told is not None and int(told) >= 0 else None


def check(unread: Sequence[Unread] | None) -> dict[str, Any]:
    """The check of /health that warns long before a record is deleted which a job has yet to
    read."""
    if unread is None:
        unknown = "not known: Kafka has not told what its topics keep"
        return {"status": "warn", "output": unknown, BECAUSE: (KAFKA,)}
    first = max(unread, key=lambda one: one.share, default=None)
    if first is None or first.share < WARN_AT:
        return {"status": "pass"}
    percent = int(first.share * 100)
    said = (
        f"what {first.job} has yet to read of {first.topic}/{first.partition} is deleted before "
        f"it reads it, unless it catches up: {percent} % of the topic's retention is used up; "
        "start the job, or raise retention.ms or retention.bytes of the topic"
    )
    if first.share >= 1:
        said = (
            f"records of {first.topic}/{first.partition} may be deleted that {first.job} has yet "
            "to read: raise retention.ms or retention.bytes of the topic now, and start the job"
        )
    status = "fail" if first.share >= FAIL_AT else "warn"
    return {"status": status, "observedValue": percent, "observedUnit": "%", "output": said}
