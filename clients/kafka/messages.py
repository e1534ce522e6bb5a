"""A message of Kafka's client as a record."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from clients.kafka.records import BAD_HEADERS, Payload, Record
from shared.events.envelope import Header, Position

# errors that say: a position that was known is of no use any more
ANOTHER_LOG = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
# a partition that has just been made, or is moving, has none for a moment
WITHOUT_LEADER = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
ASK_AGAIN_S = 0.1


def position_of(message: Message) -> Position:
    return Position(message.topic() or "", message.partition() or 0, message.offset() or 0)


def is_end(message: Message) -> bool:
    """Whether it says that its partition ends here; its offset is then the next one. KafkaException
    where it is an error."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)


def headers_of(message: Message) -> list[Header] | None:
    """A null value (Kafka allows it) reads as empty. None: a name is no UTF-8, which Kafka allows,
    too, and of which its client makes an error that tells nothing."""
    try:
        headers: Any = message.headers()
    except SystemError:
        return None
    return [(name, value or b"") for name, value in headers] if headers else []


def record_of(message: Message) -> Record:
    """Without headers where one of them cannot be read."""
    headers, time_ms = headers_of(message) or [], message.timestamp()[1]
    return Record(position_of(message), message.key(), message.value(), headers, time_ms)


def payload_of(message: Message) -> Payload:
    headers = headers_of(message)
    payload = Payload(
        position_of(message), message.key(), message.value(), headers or [], message.timestamp()[1]
    )
    return payload if headers is not None else payload._replace(lacks=BAD_HEADERS)
