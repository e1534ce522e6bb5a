"""What waits for enrich, as bytes: records of the lane, and what retry keeps of them. Pure."""

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, cast, get_args

import orjson

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.events.redelivery import FirstArrival
from shared.timestamps import is_time_ms
from shared.topic_names import dead_letter_topic, retry_topic
from stream_jobs.waiting.entry import Entry, Missing, Outcome, Passed, Refused
from stream_jobs.waiting.line import Line, Told
from stream_jobs.waiting.line_key import entity_of
from stream_jobs.waiting.protocol import ENRICH, NOT_YET

_HEADERS_BYTES = struct.Struct("!i")

# not the payload's own, but what the lane's record says of it
_OF_THE_LANE = (
    envelope.READ_AT,
    envelope.STAGE,
    envelope.REASON,
    envelope.DETAIL,
    envelope.AFTER,
    envelope.AWAY,
)
_MISSING = "missing_"


def read(record: Payload, ingest_topics: Collection[str]) -> tuple[Entry, bytes]:
    """A record of the lane: what is known of the payload that waits, and that one itself, which is
    kept beside it. ValueError where it does not say which one."""
    origin = _place(record, envelope.ORIGIN)
    if origin is None or origin.topic not in ingest_topics:
        raise ValueError(f"the header {envelope.ORIGIN} names no place of a payload")
    arrived_ms = _number(record, envelope.ARRIVED)
    first = FirstArrival(
        origin,
        # records of earlier versions do not tell it
        arrived_ms if arrived_ms and is_time_ms(arrived_ms) else record.arrived_ms,
        _number(record, envelope.ATTEMPT),
        _number(record, envelope.REVISION),
    )
    entry = Entry(
        origin,
        envelope.text(record.headers, envelope.ID) or str(origin),
        _place(record, envelope.READ_AT) or origin,
        first.arrived_ms,
        record.arrived_ms,
        (record.position.partition, record.position.offset),
        first.attempt,
        first.revision,
    )
    own = [header for header in record.headers if header[0] not in _OF_THE_LANE]
    # any byte is a character of latin-1
    told = [(name, value.decode("latin-1")) for name, value in own]
    headers = orjson.dumps(told)
    return entry, _HEADERS_BYTES.pack(len(headers)) + headers + (record.value or b"")


def payload_of(key: str, entry: Entry, letter: bytes) -> Payload:
    """As it first came."""
    (size,) = _HEADERS_BYTES.unpack_from(letter)
    begin = _HEADERS_BYTES.size
    told = orjson.loads(letter[begin : begin + size])
    headers = [(name, value.encode("latin-1")) for name, value in told]
    return Payload(
        entry.place,
        entity_of(key).encode(),
        letter[begin + size :],
        headers,
        entry.arrived_ms,
        entry.attempt,
        entry.revision,
    )


def outcome_of(outgoing: Outgoing) -> Outcome:
    if outgoing.topic not in (retry_topic(ENRICH), dead_letter_topic(ENRICH)):
        return Passed()
    reason = envelope.text(outgoing.headers, envelope.REASON) or ""
    detail = envelope.text(outgoing.headers, envelope.DETAIL) or ""
    if outgoing.topic == dead_letter_topic(ENRICH):
        return Refused(reason, detail)
    return not_yet(outgoing.headers) or Missing(
        reason, detail, row(reason.removeprefix(_MISSING), detail)
    )


def not_yet(headers: Sequence[Header]) -> Missing | None:
    """What a try has found, as a record of the lane tells it. None: the payload waits for a row, or
    behind another one."""
    if (reason := envelope.text(headers, envelope.REASON)) != NOT_YET:
        return None
    after = envelope.text(headers, envelope.AFTER)
    after_ms = int(after) if after and after.isdecimal() and len(after) <= 15 else None
    detail = envelope.text(headers, envelope.DETAIL) or ""
    return Missing(
        reason, detail, None, after_ms, envelope.find(headers, envelope.AWAY) is not None
    )


def row(table: str, key: str) -> str:
    """What a payload waits for."""
    return f"{table}/{key}"


def ident_text(entry: Entry) -> str:
    return f"{entry.place}/{entry.revision}"


def encode(line: Line) -> bytes:
    entries = [
        (
            *entry.place,
            entry.event_id,
            None if entry.read_at == entry.place else str(entry.read_at),
            entry.arrived_ms,
            entry.waits_since_ms,
            entry.in_lane,
            entry.attempt,
            entry.revision,
            entry.tries,
            entry.reason,
            entry.detail,
            entry.row,
            entry.due_ms,
            entry.given_up_in,
            entry.parked,
            entry.taken_ms,
            entry.payload_type,
            entry.away_since_ms,
            entry.away_ms,
            entry.away_tries,
            entry.unwanted,
        )
        for entry in line.entries.values()
    ]
    told = None if line.told is None else tuple(line.told)
    return orjson.dumps((entries, told, line.emptied_in))


def decode(raw: bytes) -> Line:
    entries, told, emptied_in = orjson.loads(raw)
    line = Line({}, Told(*told) if told else None, emptied_in)
    for (
        topic,
        partition,
        offset,
        event_id,
        read_at,
        arrived_ms,
        since_ms,
        in_lane,
        *rest,
    ) in entries:
        place = Position(topic, partition, offset)
        read = place if read_at is None else Position.parse(read_at)
        entry = Entry(place, event_id, read, arrived_ms, since_ms, tuple(in_lane), *rest)
        line.entries[entry.ident] = entry
    return line


_NEW_IN_GATES = ("full", "due_ms", "tries")

# in a wake, in the place of a row: each line is to be looked at, for it may be kept by other rules
# than those it was kept by
EVERY_LINE = "*"


# before epoch milliseconds, in the place of a row: up to then master data is complete
_AS_OF = "@"


Ordered = Literal["try", "give_up"]


class Order(NamedTuple):
    """What an operator asks for a line of payloads that wait; it comes as a wake."""

    what: Ordered
    key: str

    @property
    def row(self) -> str:
        return f"{self.what}:{self.key}"  # the name of no table has a colon


def orders(rows: Iterable[str]) -> list[Order]:
    found = []
    for what, colon, key in (row.partition(":") for row in rows):
        if colon and what in get_args(Ordered):
            found.append(Order(cast("Ordered", what), key))
    return found


def wake_value(rows: Sequence[str], as_of_ms: int | None) -> bytes:
    return orjson.dumps([*rows, *([] if as_of_ms is None else [f"{_AS_OF}{as_of_ms}"])])


def rows_of_wake(value: bytes | None) -> list[str]:
    """None where it is none of ours: it wakes all the same."""
    try:
        rows = orjson.loads(value or b"")
    except ValueError:
        return []
    return [row for row in rows if isinstance(row, str)] if isinstance(rows, list) else []


def as_of(rows: Iterable[str]) -> int | None:
    """The newest that wakes among these tell."""
    told = (row.removeprefix(_AS_OF) for row in rows if row.startswith(_AS_OF))
    times = (int(text) for text in told if text.isascii() and text.isdecimal() and len(text) < 16)
    return max((time_ms for time_ms in times if is_time_ms(time_ms)), default=None)


def gate_value(told: Told) -> bytes:
    said = told._asdict()
    for name in _NEW_IN_GATES:
        if not said[name]:
            del said[name]  # which earlier versions do not know
    return orjson.dumps(said)


def gate_told(value: bytes | None) -> Told | None:
    """Reads it; None where it is none of ours."""
    try:
        return Told(**orjson.loads(value or b"{}"))
    except (ValueError, TypeError):
        return None


def _place(record: Payload, name: str) -> Position | None:
    told = envelope.text(record.headers, name)
    return None if told is None else Position.parse(told)


def _number(record: Payload, name: str) -> int:
    told = envelope.text(record.headers, name)
    return int(told) if told and told.isascii() and told.isdecimal() and len(told) <= 18 else 0
