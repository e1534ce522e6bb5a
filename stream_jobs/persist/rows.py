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
from shared.ids import completion_id, derived_event_id, part_id
from shared.model import Fields
from shared.tables.view_tables import ViewTable, table_of
from stream_jobs.persist.fitness import UnfitError, data_text, json_value, refuse_too_long, text_key
from stream_jobs.persist.view_rows import ViewRow, view_row

_BIGINT_END = 1 << 63
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
    shape: int = 1
    saw: str | None = None

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
    late: int = 0
    clock_off: int = 0
    has_history: bool = False
    positions: str | None = None  # of the events that are in it, as JSON; None: not known

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
    has_history: bool = False


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


@dataclass(frozen=True)
class RowMaker:
    events: EventReader
    completion_by_type: Mapping[str, str]
    entity_by_topic: Mapping[str, str]
    ingest_topics: frozenset[str] = frozenset()
    state_completions: Mapping[str, str] = field(default_factory=dict)  # by entity
    table_by_topic: Mapping[str, ViewTable] = field(default_factory=dict)
    with_history: frozenset[str] = frozenset()  # entities

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
            with_history=frozenset(row.name for row in flow.with_state if row.history),
        )

    def reads(self, topic: str) -> bool:
        known = self.entity_by_topic, self.events.types, self.table_by_topic
        return any(topic in those for those in known)

    def make(self, record: Record) -> Row:
        topic = record.position.topic
        try:
            if topic in self.entity_by_topic:
                entity = self.entity_by_topic[topic]
                completion_topic = self.state_completions.get(entity)
                return _state_row(record, entity, completion_topic, entity in self.with_history)
            if topic in self.table_by_topic:
                return _view_row(record, self.table_by_topic[topic])
            return self._event_row(record)
        except (UnfitError, NoEvent) as unfit:
            reason, detail = unfit.args
            return DeadLetter(record, reason, detail, ledger_place=self._payload_of(record))

    def _event_row(self, record: Record) -> EventRow:
        event = self.events.read(record.position, record.key, json_value(record))
        refuse_too_long(event.id, "the event's id")
        refuse_too_long(event.entity_id, "the entity's id")
        if not 0 <= event.revision < _BIGINT_END:
            raise UnfitError("bad_revision", f"{event.revision} is no number of corrections")
        return EventRow(
            record=record,
            event_id=event.id,
            type=event.type,
            entity_id=event.entity_id,
            time_ms=event.time_ms,
            arrived_ms=event.arrived_ms,
            origin=str(event.origin),
            payload_sha256=_payload_sha256(record.headers),
            data=data_text(event.data),
            completion_topic=self.completion_by_type[event.type],
            completion_headers=_completion_headers(event, record.headers),
            ledger_place=(
                event.origin if event.origin.topic in self.ingest_topics else record.position
            ),
            revision=event.revision,
            part=event.part,
            parts=event.parts,
            shape=event.shape,
            saw=_saw(event.saw),
        )

    def _payload_of(self, record: Record) -> Position | None:
        """The payload of an event that can be no row; None where the record is no event of a
        payload."""
        try:
            origin = envelope.read_event(record.position, record.value or b"").origin
        except ValueError:
            return None
        return origin if origin.topic in self.ingest_topics else None


def key_reuse(row: EventRow, stored_origin: str, stored_sha256: str) -> DeadLetter:
    """The letter of an event whose id another payload has. Known by id and payload: enrich may
    write the same event again, elsewhere."""
    detail = (
        f"event id {row.event_id} is stored for the payload at {stored_origin} with sha256 "
        f"{stored_sha256}; this one, at {row.origin}, has sha256 {row.payload_sha256}. Two "
        "payloads came under one Idempotency-Key and the stored one is the event: if this one "
        "is to count, send it again under a key of its own"
    )
    known_by = ("key_reuse", row.event_id, str(row.payload_sha256))
    return DeadLetter(row.record, "key_reuse", detail, known_by)


def _state_row(
    record: Record, entity: str, completion_topic: str | None, has_history: bool
) -> StateRow | GoneRow:
    entity_id = text_key(record, "no_snapshot")
    if record.value is None:
        return GoneRow(record, entity, entity_id, has_history)
    value = json_value(record)
    try:
        facts, meta = snapshot.read_facts_with_meta(value)
        state = orjson.dumps(facts.state).decode()
    except (TypeError, ValueError) as error:
        raise UnfitError("no_snapshot", str(error)) from error
    if abs(facts.version) >= _BIGINT_END:
        raise UnfitError("no_snapshot", "the version is too large a number")
    known = facts.version, facts.event_time_ms, state, facts.deleted
    late, clock_off = _count(meta.get("late")), _count(meta.get("clock_off"))
    row = StateRow(record, entity, entity_id, *known, completion_topic)
    positions = _positions(meta) if has_history else None
    return row._replace(
        late=late, clock_off=clock_off, has_history=has_history, positions=positions
    )


def _positions(meta: Fields) -> str | None:
    """Up to which offset of each event topic/partition the state has looked. While an entity is
    folded anew, that is ahead of what is in it."""
    told = meta.get("positions")
    if not isinstance(told, dict) or meta.get("asked"):
        return None
    known = {
        log: offset
        for log, offset in told.items()
        if type(offset) is int and abs(offset) < _BIGINT_END and "\0" not in log
    }
    return orjson.dumps(known).decode()


def _count(told: object) -> int:
    return told if type(told) is int and abs(told) < _BIGINT_END else 0


def _view_row(record: Record, table: ViewTable) -> ViewRow:
    key = text_key(record, _NO_VIEW_ROW)
    try:
        return view_row(record, table, key, json_value(record))
    except (TypeError, ValueError) as error:
        raise UnfitError(_NO_VIEW_ROW, str(error)) from error


def _saw(saw: Mapping[str, int] | None) -> str | None:
    return orjson.dumps(saw).decode() if saw else None


def _payload_sha256(headers: list[Header]) -> str | None:
    told = envelope.find(headers, envelope.PAYLOAD_SHA256)
    return told.decode() if told is not None and _SHA256.fullmatch(told) else None


def _completion_headers(event: envelope.EventRecord, headers: list[Header]) -> list[Header]:
    trace_parent = envelope.find(headers, envelope.TRACE_PARENT)
    revision = str(event.revision) if event.revision else ""
    return [
        *_told_of_row(completion_id(event.id, event.revision), event.type, event.entity_id),
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
