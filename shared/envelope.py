"""What travels beside a value: record headers, in CloudEvents' binary binding for Kafka.

The gateway writes `ingest_headers`, enrich turns them into `event_headers`. Values stay pure data.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shared.timestamps import from_rfc3339, to_rfc3339

Header = tuple[str, bytes]

ID = "ce_id"
TYPE = "ce_type"
SOURCE = "ce_source"
SUBJECT = "ce_subject"
TIME = "ce_time"
SPEC_VERSION = "ce_specversion"
CONTENT_TYPE = "content-type"
TRACE_PARENT = "traceparent"
# extensions of ours
PAYLOAD_SHA256 = "ce_payloadsha256"
ARRIVED_MS = "ce_arrivedms"
ORIGIN = "ce_origin"
ATTEMPT = "ce_attempt"  # absent on a first attempt
STAGE = "ce_stage"
REASON = "ce_reason"
DETAIL = "ce_detail"


class Position(NamedTuple):
    """A place in the log. As text: topic/partition/offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))


class EventRecord(NamedTuple):
    """A record of an event topic."""

    position: Position
    entity_id: str
    id: str
    type: str
    time_ms: int
    arrived_ms: int
    origin: Position
    attempt: int
    data: bytes


def find(headers: Iterable[Header], name: str) -> bytes | None:
    """The first value of that name."""
    return next((value for key, value in headers if key == name), None)


def text(headers: Iterable[Header], name: str) -> str | None:
    """As `find`, for headers that anyone may have written: bytes that are no text show as such."""
    value = find(headers, name)
    return None if value is None else value.decode(errors="backslashreplace")


def event_headers(
    event_id: str,
    event_type: str,
    entity_id: str,
    time_ms: int,
    arrived_ms: int,
    origin: Position,
    ingest_headers: Sequence[Header] = (),
) -> list[Header]:
    """The envelope of an event, made from its payload's."""
    kept = [(k, v) for k, v in ingest_headers if k in (TRACE_PARENT, PAYLOAD_SHA256, ATTEMPT)]
    return [
        (SPEC_VERSION, b"1.0"),
        (ID, event_id.encode()),
        (TYPE, event_type.encode()),
        (SOURCE, f"/{origin.topic}".encode()),
        (SUBJECT, entity_id.encode()),
        (TIME, to_rfc3339(time_ms).encode()),
        (CONTENT_TYPE, b"application/json"),
        (ARRIVED_MS, str(arrived_ms).encode()),
        (ORIGIN, str(origin).encode()),
        *kept,
    ]


def failure_headers(
    ingest_headers: Sequence[Header], stage: str, origin: Position, reason: str, detail: str
) -> list[Header]:
    """A payload's own headers, and why it did not pass this stage."""
    ours = (STAGE, ORIGIN, REASON, DETAIL)
    return [
        *((k, v) for k, v in ingest_headers if k not in ours),
        (STAGE, stage.encode()),
        (ORIGIN, str(origin).encode()),
        (REASON, reason.encode()),
        (DETAIL, detail.encode()),
    ]


def read_event(
    position: Position, key: bytes, value: bytes, headers: Sequence[Header]
) -> EventRecord:
    """ValueError where the record has not the envelope of an event."""
    found = dict(reversed(headers))  # the first of a name counts
    try:
        return EventRecord(
            position=position,
            entity_id=key.decode(),
            id=found[ID].decode(),
            type=found[TYPE].decode(),
            time_ms=from_rfc3339(found[TIME].decode()),
            arrived_ms=int(found[ARRIVED_MS]),
            origin=Position.parse(found[ORIGIN].decode()),
            attempt=int(found.get(ATTEMPT, b"0")),
            data=value,
        )
    except KeyError as missing:
        raise ValueError(f"{position} lacks the header {missing}") from None
