"""What is asked of librdkafka, in the words of this package."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .events import Position, Record
from .lines import Partition

# the group goes on without this one, or is about to; nothing was committed
NO_LONGER_OURS = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
)
_HOPELESS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
)
_FROM_THE_END = "latest", "largest", "end"  # as librdkafka calls it
_ASKED_S = 10.0


class ConsumerError(Exception):
    """It cannot go on; the message says why and what to do."""


def record_of(message: Message) -> Record:
    place = Position(message.topic() or "", message.partition() or 0, message.offset() or 0)
    try:
        told: Any = message.headers()
    except SystemError:  # Kafka allows such a name; its client makes an error of it
        lacks = "the name of one of its headers is no UTF-8: none of them can be read"
        return Record(place, message.key(), message.value(), [], lacks)
    headers = [(name, value or b"") for name, value in told or ()]
    return Record(place, message.key(), message.value(), headers)


def places_of(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def is_hopeless(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() in _HOPELESS


def commit(client: Consumer, offsets: Mapping[Partition, int]) -> None:
    """Returns once Kafka has them; KafkaException where it has not all of them."""
    for place in client.commit(offsets=places_of(offsets), asynchronous=False) or ():
        if place.error is not None:
            raise KafkaException(place.error)


def is_incremental(settings: Mapping[str, Any]) -> bool:
    """Whether a member keeps its partitions while others get theirs."""
    strategies = str(settings.get("partition.assignment.strategy", ""))
    return "cooperative" in strategies or settings.get("group.protocol") == "consumer"


def starts_of(
    client: Consumer, partitions: list[TopicPartition], reset: str
) -> list[TopicPartition]:
    """Where the group is in each of them, as an offset, also where it has not been yet.

    Left to itself, librdkafka asks for the first offset of such a partition. When the answer comes
    after the partition has been with another member and back, librdkafka asks once more, and goes
    back to the first offset.
    """
    starts: list[TopicPartition] = client.committed(partitions, timeout=_ASKED_S)
    for place in starts:
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset < 0 and reset != "error":
            first, end = client.get_watermark_offsets(place, timeout=_ASKED_S)
            place.offset = end if reset in _FROM_THE_END else first
    return starts


@contextmanager
def told_by_signals(stop: threading.Event) -> Iterator[None]:
    """Python tells the main thread of them, and no other."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
