"""What jobs have just said of themselves, by the status topic."""

import time
from collections.abc import Collection
from typing import Any

import orjson

from clients.kafka.connect import answering
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange
from shared.errors import JobError
from shared.kafka_access import KafkaAccess, KafkaAwayError
from shared.topic_names import JOB_STATUS_TOPIC

_ANSWER_S = 5.0
RECENT_MS = 15_000  # they speak every two seconds


def last_words(kafka: KafkaAccess, group: str, jobs: Collection[str]) -> dict[str, dict[str, Any]]:
    """What each job has said last; those that have said nothing are left out. KafkaAwayError where
    the broker has no answer."""
    try:
        with answering(kafka):
            return _read(kafka, group, jobs)
    except JobError as error:
        raise KafkaAwayError(f"Kafka at {kafka.bootstrap}: {error}") from error


def _read(kafka: KafkaAccess, group: str, jobs: Collection[str]) -> dict[str, dict[str, Any]]:
    since_ms = time.time_ns() // 1_000_000 - RECENT_MS
    at = JOB_STATUS_TOPIC, 0
    with LogOffsets(kafka, group, answer_s=_ANSWER_S) as log:
        start, end = log.since({at: since_ms})[at], log.ends([at])[at]
    said: dict[str, dict[str, Any]] = {}
    if start is not None:
        consumer = RangeReader(kafka, group, _ANSWER_S)
        try:
            for messages in consumer.read([LogRange(*at, start, end)]):
                for message in messages:
                    job = (message.key() or b"").decode(errors="replace")
                    if job in jobs and (value := message.value()):
                        said[job] = orjson.loads(value)
        finally:
            consumer.close()
    return said
