"""What travels beside a value: record headers, in CloudEvents' binary binding for Kafka.

The gateway writes headers only: a payload is never touched. An event has them in its value, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import orjson

from shared import VERSION
from shared.model import Fields
from shared.timestamps import is_time_ms, to_rfc3339

Header = tuple[str, bytes]

ID = "ce_id"
TYPE = "ce_type"
SOURCE = "ce_source"
SUBJECT = "ce_subject"
TIME = "ce_time"
SPEC_VERSION = "ce_specversion"
CONTENT_TYPE = "content-type"
CONTENT_ENCODING = "content-encoding"
TRACE_PARENT = "traceparent"
# extensions of ours
PAYLOAD_SHA256 = "ce_payloadsha256"
TENANT = "ce_tenant"  # absent where there is none
ORIGIN = "ce_origin"
ARRIVED = "ce_arrivedms"  # where the record's own time is a later one
RECEIVED = "ce_receivedms"  # by the gateway, on what its spool held before it was written here
ATTEMPT = "ce_attempt"  # absent on a first attempt
REVISION = "ce_revision"  # absent but on corrections
DISCARDED = "ce_discarded"  # on what an operator has discarded, for those that keep it
PARTS_OF = "ce_partsof"  # on corrections of a payload of several events: whose they are, as JSON
READ_AT = "ce_readat"  # on what waits: where its stage read it, if not at its origin
AFTER = "ce_afterms"  # on what waits: until its next try, where its enrichment says so
BREACH = "ce_breach"  # on an event of a payload that broke its contract: how, and where
AWAY = "ce_away"  # on what waits: what it waits for is away
STAGE = "ce_stage"
REASON = "ce_reason"
DETAIL = "ce_detail"
SOFTWARE = "ce_software"  # the version of ours that could not do it
REWRITTEN = "ce_rewritten"  # sha256 of the payload before an operator changed its bytes
ATTEMPTS = "ce_attempts"  # JSON: the times before at which it could not be done
STUB = "ce_stub"  # in the place of a value that is too large to be here: where it is
HOOK = "ce_hook"  # on what is for one hook alone: a dead letter, or what is sent again
REPLAY = "ce_replay"  # on an event that a webhook is to get once more, beside what is new
TRIES = "ce_tries"  # on what was parked: how often it was tried there

# of one payload; more would take the memory of whoever holds them together
PARTS_MAX = 10_000
_TOLD_BYTES_MAX = 4096
_KEPT_BYTES_MAX = 1024
_FIELDS_OF_ALL = 7  # in the value of an event that has no more to tell
_SPEC_VERSION = SPEC_VERSION, b"1.0"
_JSON = CONTENT_TYPE, b"application/json"
# of a payload's headers, what its event has, too
_KEPT = frozenset((TRACE_PARENT, PAYLOAD_SHA256, REWRITTEN, TENANT))


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
    position: Position
    entity_id: str
    id: str
    type: str
    time_ms: int
    arrived_ms: int
    origin: Position
    attempt: int
    data: Fields
    cause: str | None = None  # id of the event that a fold has derived it from
    revision: int = 0  # a correction has the id of what it corrects, and a higher revision
    shape: int = 1  # of `data`: which of the event type's
    part: int = 0  # of the events that its payload became, which one it is
    parts: int = 1  # and how many these are
    # "entity/id" -> version of each state that was looked at when it was made; 0: there was none.
    # "look-up/key" -> when the service that was asked gave its answer, in epoch milliseconds
    saw: Mapping[str, int] | None = None


def find(headers: Iterable[Header], name: str) -> bytes | None:
    """The first value of that name."""
    for key, value in headers:
        if key == name:
            return value
    return None


def text(headers: Iterable[Header], name: str) -> str | None:
    """As `find`, for headers that anyone may have written: bytes that are no text show as such."""
    value = find(headers, name)
    return None if value is None else value.decode(errors="backslashreplace")


def event_value(record: EventRecord) -> bytes:
    """The common format. The envelope stands in the value too: a fold that had to dig in the
    headers of each record would spend more there than on folding."""
    return orjson.dumps(event_fields(record))


def event_fields(record: EventRecord) -> Fields:
    value: Fields = {
        "id": record.id,
        "type": record.type,
        "entity_id": record.entity_id,
        "time_ms": record.time_ms,
        "arrived_ms": record.arrived_ms,
        "origin": tuple(record.origin),  # orjson takes no named one
        "data": record.data,
    }
    if record.attempt:
        value["attempt"] = record.attempt
    if record.cause is not None:
        value["cause"] = record.cause
    if record.revision:
        value["revision"] = record.revision
    if record.shape != 1:
        value["shape"] = record.shape
    if record.parts != 1:
        value["part"] = (record.part, record.parts)
    if record.saw:
        value["saw"] = record.saw
    return value


def event_of(position: Position, fields: Fields) -> EventRecord:
    """The other way round."""
    if len(fields) == _FIELDS_OF_ALL:  # as most are, and a reader has many
        return EventRecord(
            position,
            fields["entity_id"],
            fields["id"],
            fields["type"],
            fields["time_ms"],
            fields["arrived_ms"],
            Position(*fields["origin"]),
            0,
            fields["data"],
        )
    part, parts = fields.get("part", (0, 1))
    return EventRecord(
        position,
        fields["entity_id"],
        fields["id"],
        fields["type"],
        fields["time_ms"],
        fields["arrived_ms"],
        Position(*fields["origin"]),
        fields.get("attempt", 0),
        fields["data"],
        fields.get("cause"),
        fields.get("revision", 0),
        fields.get("shape", 1),
        part,
        parts,
        fields.get("saw"),
    )


def read_event(position: Position, value: bytes) -> EventRecord:
    """ValueError where the value is not in the common format."""
    try:
        fields = orjson.loads(value)
        record = event_of(position, fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{position} is no event: {type(error).__name__} {error}") from error
    if not (
        type(record.entity_id) is type(record.id) is type(record.type) is str
        and type(record.origin.topic) is str
        and type(record.origin.partition) is type(record.origin.offset) is int
        and type(record.data) is dict
        and (len(fields) == _FIELDS_OF_ALL or _has_good_extras(record))
    ):
        raise ValueError(f"{position} is no event: a field of its envelope has the wrong type")
    if not (is_time_ms(record.time_ms) and is_time_ms(record.arrived_ms)):
        raise ValueError(f"{position} is no event: a time is out of the years 1 to 9999")
    return record


def _has_good_extras(record: EventRecord) -> bool:
    return (
        type(record.attempt) is type(record.revision) is type(record.shape) is int
        and (record.cause is None or type(record.cause) is str)
        and _is_part(record.part, record.parts)
        and (record.saw is None or type(record.saw) is dict)
    )


def _is_part(part: object, parts: object) -> bool:
    return type(part) is type(parts) is int and 0 <= part < parts <= PARTS_MAX


def kept_headers(ingest_headers: Sequence[Header]) -> list[Header]:
    """What the events of a payload have of its own headers; whoever wrote these may have written
    anything."""
    return [
        header
        for header in ingest_headers
        if header[0] in _KEPT and len(header[1]) <= _KEPT_BYTES_MAX
    ]


def event_headers(record: EventRecord, kept: Sequence[Header] = ()) -> list[Header]:
    """For whoever routes or dedupes without reading values."""
    headers = [
        _SPEC_VERSION,
        (ID, record.id.encode()),
        *_type_and_source(record.type, record.origin.topic),
        (SUBJECT, record.entity_id.encode()),
        (TIME, to_rfc3339(record.time_ms).encode()),
        _JSON,
        (ORIGIN, str(record.origin).encode()),
    ]
    if record.revision:
        headers.append((REVISION, str(record.revision).encode()))
    headers += kept
    return headers


def next_headers(before: Sequence[Header], record: EventRecord) -> list[Header]:
    """The headers of an event that follows one of the same payload, type and entity, which had
    `before`."""
    headers = [*before]
    headers[1] = ID, record.id.encode()
    headers[5] = TIME, to_rfc3339(record.time_ms).encode()
    return headers


@cache
def _type_and_source(kind: str, topic: str) -> tuple[Header, Header]:
    return (TYPE, kind.encode()), (SOURCE, f"/{topic}".encode())


def failure_headers(
    ingest_headers: Sequence[Header], stage: str, origin: Position, reason: str, detail: str
) -> list[Header]:
    """A payload's own headers, and why it did not pass this stage. Reason and detail may be a
    domain's own, so they are whatever they are, and of any length."""
    ours = (STAGE, ORIGIN, REASON, DETAIL, SOFTWARE)
    return [
        *((k, v) for k, v in ingest_headers if k not in ours),
        (STAGE, stage.encode()),
        (ORIGIN, str(origin).encode()),
        (REASON, _told(reason)),
        (DETAIL, _told(detail)),
        (SOFTWARE, VERSION.encode()),
    ]


def _told(said: object) -> bytes:
    return str(said).encode(errors="backslashreplace")[:_TOLD_BYTES_MAX]
