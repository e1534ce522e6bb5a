"""What jobs have just said of themselves."""

from collections.abc import Collection
from typing import Any

from clients.kafka.last_words import last_words
from gateway.monitor.job_status import JobStatus, status_of
from shared.consumer_groups import DESK
from shared.kafka_access import KafkaAccess
from shared.timestamps import now_ms


def statuses(kafka: KafkaAccess, jobs: Collection[str]) -> dict[str, JobStatus]:
    """The statuses of those jobs that have said anything. KafkaAwayError where Kafka does not
    answer."""
    said, at_ms = last_words(kafka, DESK, jobs), now_ms()
    found = {job: status_of(word, at_ms) for job, word in said.items()}
    return {job: status for job, status in found.items() if status is not None}


def told(word: JobStatus | None) -> dict[str, Any]:
    """None: of a job that says nothing."""
    if word is None or word.is_silent:
        since = "lately" if word is None else f"for {word.silent_ms // 1000} s"
        return {"state": "silent", "detail": f"it has not said a word {since}"}
    return {"state": word.state, "detail": word.detail}
