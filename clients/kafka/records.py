"""Records of Kafka, as the jobs read and write them. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.events.envelope import Header, Position

Offsets = dict[str, dict[int, int]]  # topic -> partition -> offset
BAD_HEADERS = "the name of one of its headers is no UTF-8: none of them can be read"


class Payload(NamedTuple):
    """A record of an ingest topic, or one that has come again; anyone may have written it."""

    position: Position  # where it first came
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    arrived_ms: int  # when it first came
    attempt: int = 0
    revision: int = 0
    lacks: str = ""  # why it cannot be told what it is


class LogRecord(NamedTuple):
    """A record as the log has it; anyone may have written it."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class Outgoing(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]
