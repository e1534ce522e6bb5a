"""The ids of topics: one that was made again under its name has another. Only an admin client tells
them, which may abort its process (see `connect.admin`)."""

from collections.abc import Collection
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient


class TopicId(NamedTuple):
    id: str
    partitions: list[int]


def topic_ids(client: AdminClient, topics: Collection[str], answer_s: float) -> dict[str, TopicId]:
    """The ids of those topics that exist. KafkaException where the broker does not answer."""
    asked = client.describe_topics(TopicCollection(list(topics)), request_timeout=answer_s)
    found = {}
    for topic, answer in asked.items():
        try:
            its = answer.result(answer_s + 1)
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            continue
        found[topic] = TopicId(str(its.topic_id), [partition.id for partition in its.partitions])
    return found
