"""What a record of Kafka's client is to the jobs."""

from typing import Any

from confluent_kafka import Message

from clients.kafka.records import BAD_HEADERS, Payload
from shared.events.envelope import Header, Position


def position_of(message: Message) -> Position:
    return Position(message.topic() or "", message.partition() or 0, message.offset() or 0)


def headers_of(message: Message) -> list[Header] | None:
    """A null value (Kafka allows it) reads as empty. None: a name is no UTF-8, which Kafka allows,
    too, and of which its client makes an error that tells nothing."""
    try:
        headers: Any = message.headers()
    except SystemError:
        return None
    return [(name, value or b"") for name, value in headers] if headers else []


def payload_of(message: Message) -> Payload:
    headers = headers_of(message)
    payload = Payload(
        position_of(message), message.key(), message.value(), headers or [], message.timestamp()[1]
    )
    return payload if headers is not None else payload._replace(lacks=BAD_HEADERS)
