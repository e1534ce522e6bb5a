"""Jobs that would never come to the end of a topic."""

from collections.abc import Collection

from clients.kafka.last_words import last_words
from local_stack.terminal.errors import StackError
from shared.consumer_groups import HEALTHCHECK
from shared.kafka_access import KafkaAccess, KafkaAwayError

_DOWN = ("failed", "paused")


def refuse_readers_that_are_down(kafka: KafkaAccess, readers: Collection[str]) -> None:
    """Refuses by what they have said just now; of one that says nothing nobody knows."""
    try:
        said = last_words(kafka, HEALTHCHECK, readers)
    except KafkaAwayError:
        return
    for job, word in said.items():
        if (state := word.get("state")) in _DOWN:
            raise StackError(
                f"{job}, which reads the topic, is {state}: {word.get('detail')}; nothing was "
                "changed",
                f"let {job} go on, and call this again",
            )
