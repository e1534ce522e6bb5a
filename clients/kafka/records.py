"""Records of Kafka, as they are read and written, and their places. Pure."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shared.events.envelope import EventRecord, Header, Position, event_headers, event_value

Partition = tuple[str, int]  # of a topic
Offsets = dict[str, dict[int, int]]  # topic -> partition -> offset
NOTE = "@"  # what a planner notes among a batch's offsets begins so; no topic's name does
BAD_HEADERS = "the name of one of its headers is no UTF-8: none of them can be read"


class Record(NamedTuple):
    """As the log has it; anyone may have written it."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: list[Header] = []  # noqa: RUF012 - never changed
    time_ms: int = 0


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


class Outgoing(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def outgoing_events(
    topics: Iterable[str], record: EventRecord, kept: Sequence[Header] = ()
) -> list[Outgoing]:
    """The same in each of these topics."""
    key, value = record.entity_id.encode(), event_value(record)
    headers = event_headers(record, kept)
    return [Outgoing(topic, key, value, headers) for topic in topics]


class Range(NamedTuple):
    """A range of a log, or of what is read of it."""

    start: int
    end: int


class LogRange(NamedTuple):
    topic: str
    partition: int
    start: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.start


def or_end(found: Mapping[Partition, int | None], at: Partition, end: int) -> int:
    """Where a partition has nothing of what was looked for, its end."""
    offset = found.get(at)
    return end if offset is None else offset


def plain(value: bytes | None) -> str | dict[str, str] | None:
    """For a program: text as it is, other bytes in base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def by_topic(offsets: Mapping[Partition, int]) -> Offsets:
    found: Offsets = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found


def by_partition(offsets: Offsets) -> dict[Partition, int]:
    return {(topic, p): offset for topic, its in offsets.items() for p, offset in its.items()}


def from_json(told: Mapping[str, Any]) -> Offsets:
    """Without the notes that whoever planned a batch has put there."""
    return {
        topic: {int(partition): int(offset) for partition, offset in its.items()}
        for topic, its in told.items()
        if not topic.startswith(NOTE)
    }
