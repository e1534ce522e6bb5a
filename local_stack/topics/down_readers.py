"""Jobs that would never come to the end of a topic."""

from collections.abc import Collection

from confluent_kafka import KafkaException

from local_stack.terminal.errors import StackError
from shared.errors import JobError
from shared.kafka_access import KafkaAccess
from stream_jobs.healthcheck import last_words

_DOWN = "failed"


def refuse_readers_that_are_down(kafka: KafkaAccess, readers: Collection[str]) -> None:
    """By what they have just said; of one that says nothing nobody knows."""
    try:
        said = last_words(kafka, readers)
    except (KafkaException, JobError):
        return
    for job, word in said.items():
        if word.get("state") == _DOWN:
            raise StackError(
                f"{job}, which reads the topic, is down: {word.get('detail')}; nothing was changed",
                f"restart {job} when it can go on, and call this again",
            )
