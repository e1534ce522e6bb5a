"""Records of event, state and view topics -> rows for PostgreSQL, or the reason why they can be
none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

import orjson

from clients.kafka.records import Record
from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.formats.text import holds_nul
from shared.ids import derived_event_id, part_id
from shared.model import Fields
from shared.tables.view_tables import ViewTable, table_of
from stream_jobs.persist.view_rows import ViewRow, view_row

_BIGINT_END = 1 << 63
_INDEXED_BYTES_MAX = 2_000  # PostgreSQL takes a few hundred more
_NO_VIEW_ROW = "no_view_row"
_SHA256 = re.compile(rb"[0-9a-f]{64}")


class EventRow(NamedTuple):
    record: Record
    event_id: str
    type: str
    entity_id: str
    time_ms: int
    arrived_ms: int
    origin: str
    payload_sha256: str | None  # None: whoever wrote the record told none
    data: str
    completion_topic: str
    completion_headers: list[Header]  # but for its time, which is when the row was stored
    ledger_place: Position  # of the payload; of an event that came from none, its own
    revision: int = 0  # above 0: it corrects the row that is there
    part: int = 0  # of the events of its payload, which one it is
    parts: int = 1  # and how many these are

    @property
    def payload_id(self) -> str:
        """The id of the first event of its payload."""
        return self.event_id.removesuffix(part_id("", self.part))


class StateRow(NamedTuple):
    record: Record
    entity: str
    id: str
    version: int
    event_time_ms: int | None
    state: str
    deleted: bool = False
    completion_topic: str | None = None  # None: it has no completion

    @property
    def completion_headers(self) -> list[Header]:
        """But for its time. An entity that was forgotten begins again with version 1, so the place
        of the snapshot is part of the id."""
        of = ("completion", "state", str(self.record.position), str(self.version))
        return _told_of_row(derived_event_id(*of), f"state.{self.entity}", self.id)


class GoneRow(NamedTuple):
    """A null on a state topic: what stood before it is over."""

    record: Record
    entity: str
    id: str


class DeadLetter(NamedTuple):
    record: Record
    reason: str
    detail: str
    known_by: tuple[str, ...] = ()  # none: by its place and its bytes
    ledger_place: Position | None = None

    @property
    def id(self) -> str:
        """The same for the same record, whenever it is parked again."""
        digest = sha256(self.record.value or b"").hexdigest()
        known_by = self.known_by or (str(self.record.position), digest)
        return derived_event_id("parked", "persist", *known_by)


Row = EventRow | StateRow | GoneRow | ViewRow | DeadLetter


class _UnfitError(Exception):
    """args: reason, detail."""


@dataclass(frozen=True)
class RowMaker:
    events: EventReader
    completion_by_type: Mapping[str, str]
    entity_by_topic: Mapping[str, str]
    ingest_topics: frozenset[str] = frozenset()
    state_completions: Mapping[str, str] = field(default_factory=dict)  # by entity
    table_by_topic: Mapping[str, ViewTable] = field(default_factory=dict)

    @classmethod
    def of(cls, flow: Flow) -> "RowMaker":
        return cls(
            events=EventReader.of(flow),
            completion_by_type={t.name: t.completion_topic for t in flow.event_types},
            entity_by_topic={e.topic: e.name for e in flow.with_state},
            ingest_topics=frozenset(flow.ingest_topics),
            state_completions={
                row.name: row.completion_topic for row in flow.with_state if row.completions
            },
            table_by_topic={row.topic: table_of(row) for row in flow.views if row.row is not None},
        )

    def reads(self, topic: str) -> bool:
        known = self.entity_by_topic, self.events.types, self.table_by_topic
        return any(topic in those for those in known)

    def make(self, record: Record) -> Row:
        topic = record.position.topic
        try:
            if topic in self.entity_by_topic:
                entity = self.entity_by_topic[topic]
                return _state_row(record, entity, self.state_completions.get(entity))
            if topic in self.table_by_topic:
                return _view_row(record, self.table_by_topic[topic])
            return self._event_row(record)
        except (_UnfitError, NoEvent) as unfit:
            reason, detail = unfit.args
            return DeadLetter(record, reason, detail, ledger_place=self._payload_of(record))

    def _event_row(self, record: Record) -> EventRow:
        event = self.events.read(record.position, record.key, _json_value(record))
        _indexable(event.id, "the event's id")
        _indexable(event.entity_id, "the entity's id")
        if not 0 <= event.revision < _BIGINT_END:
            raise _UnfitError("bad_revision", f"{event.revision} is no number of corrections")
        return EventRow(
            record=record,
            event_id=event.id,
            type=event.type,
            entity_id=event.entity_id,
            time_ms=event.time_ms,
            arrived_ms=event.arrived_ms,
            origin=str(event.origin),
            payload_sha256=_payload_sha256(record.headers),
            data=_data(event.data),
            completion_topic=self.completion_by_type[event.type],
            completion_headers=_completion_headers(event, record.headers),
            ledger_place=(
                event.origin if event.origin.topic in self.ingest_topics else record.position
            ),
            revision=event.revision,
            part=event.part,
            parts=event.parts,
        )

    def _payload_of(self, record: Record) -> Position | None:
        """Of an event that can be no row; None where the record is no event of a payload."""
        try:
            origin = envelope.read_event(record.position, record.value or b"").origin
        except ValueError:
            return None
        return origin if origin.topic in self.ingest_topics else None


def key_reuse(row: EventRow, stored_origin: str, stored_sha256: str) -> DeadLetter:
    """Of an event whose id another payload has. Known by id and payload: enrich may write the same
    event again, elsewhere."""
    detail = (
        f"event id {row.event_id} is stored for the payload at {stored_origin} with sha256 "
        f"{stored_sha256}; this one, at {row.origin}, has sha256 {row.payload_sha256}. Two "
        "payloads came under one Idempotency-Key and the stored one is the event: if this one "
        "is to count, send it again under a key of its own"
    )
    known_by = ("key_reuse", row.event_id, str(row.payload_sha256))
    return DeadLetter(row.record, "key_reuse", detail, known_by)


def _state_row(record: Record, entity: str, completion_topic: str | None) -> StateRow | GoneRow:
    entity_id = _text_key(record, "no_snapshot")
    if record.value is None:
        return GoneRow(record, entity, entity_id)
    value = _json_value(record)
    try:
        facts = snapshot.read_facts(value)
        state = orjson.dumps(facts.state).decode()
    except (TypeError, ValueError) as error:
        raise _UnfitError("no_snapshot", str(error)) from error
    if abs(facts.version) >= _BIGINT_END:
        raise _UnfitError("no_snapshot", "the version is too large a number")
    known = facts.version, facts.event_time_ms, state, facts.deleted
    return StateRow(record, entity, entity_id, *known, completion_topic)


def _view_row(record: Record, table: ViewTable) -> ViewRow:
    key = _text_key(record, _NO_VIEW_ROW)
    try:
        return view_row(record, table, key, _json_value(record))
    except (TypeError, ValueError) as error:
        raise _UnfitError(_NO_VIEW_ROW, str(error)) from error


def _text_key(record: Record, unfit: str) -> str:
    if record.key is None:
        raise _UnfitError("no_key", "the key says whose record it is, and this one has none")
    try:
        key = record.key.decode()
    except UnicodeDecodeError as error:
        raise _UnfitError(unfit, str(error)) from error
    if "\0" in key:
        raise _UnfitError("nul_in_text", "the key holds a NUL character")
    _indexable(key, "the key")
    return key


def _json_value(record: Record) -> bytes:
    if record.value is None:
        raise _UnfitError("no_value", "the value is null")
    try:
        orjson.loads(record.value)
    except ValueError as error:
        raise _UnfitError("no_json", str(error)) from error
    if holds_nul(record.value):
        raise _UnfitError("nul_in_text", r"the value holds \u0000, which no row can")
    return record.value


def _data(data: Fields) -> str:
    """An upcaster may have put into it what the record did not hold."""
    try:
        text = orjson.dumps(data)
    except (TypeError, ValueError) as error:
        raise _UnfitError("not_writable", f"the data cannot be written as JSON: {error}") from error
    if holds_nul(text):
        raise _UnfitError("nul_in_text", r"the data holds \u0000, which no row can")
    return text.decode()


def can_be_indexed(text: str) -> bool:
    return "\0" not in text and len(text.encode()) <= _INDEXED_BYTES_MAX


def _indexable(text: str, what: str) -> None:
    if (size := len(text.encode())) > _INDEXED_BYTES_MAX:
        raise _UnfitError(
            "id_too_long", f"{what} has {size} bytes, an index takes {_INDEXED_BYTES_MAX}"
        )


def _payload_sha256(headers: list[Header]) -> str | None:
    told = envelope.find(headers, envelope.PAYLOAD_SHA256)
    return told.decode() if told is not None and _SHA256.fullmatch(told) else None


def _completion_headers(event: envelope.EventRecord, headers: list[Header]) -> list[Header]:
    trace_parent = envelope.find(headers, envelope.TRACE_PARENT)
    # whoever dedupes by id would otherwise never hear of a correction
    revision = str(event.revision) if event.revision else ""
    of = ("completion", event.id, revision) if revision else ("completion", event.id)
    return [
        *_told_of_row(derived_event_id(*of), event.type, event.entity_id),
        *([(envelope.REVISION, revision.encode())] if revision else []),
        *([(envelope.TRACE_PARENT, trace_parent)] if trace_parent else []),
    ]


def _told_of_row(id_: str, what: str, entity_id: str) -> list[Header]:
    return [
        (envelope.SPEC_VERSION, b"1.0"),
        (envelope.ID, id_.encode()),
        (envelope.TYPE, f"completion.{what}".encode()),
        (envelope.SOURCE, b"/persist"),
        (envelope.SUBJECT, entity_id.encode()),
        (envelope.CONTENT_TYPE, b"application/json"),
    ]
