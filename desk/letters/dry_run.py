"""What would become of a letter, if it were sent on again as it is or changed? Nothing is written:
the same pure functions as in the jobs say so. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Payload
from desk.letters.redrive_routes import (
    OutboxMessage,
    ResendError,
    Rewrite,
    RowToStore,
    event_of,
    way_back,
)
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.model import Entity, Fields, MasterData
from shared.published.dead_letters import Letter
from shared.topic_names import dropped_topic
from stream_jobs.enrich.enrich_payload import as_first_come, enricher
from stream_jobs.persist.rows import DeadLetter

# state topic and key -> the snapshot that is known now
SnapshotLookup = Callable[[str, bytes], bytes | None]
_RING_SIZE = 64
_NO_PARTITION = -1  # a place that no snapshot has passed


class StateTrial(NamedTuple):
    entity: str
    id: str
    outcome: str  # 'changes', 'unchanged', 'parked'
    detail: str
    before: Fields | None
    after: Fields | None


class Trial(NamedTuple):
    """`outcome`: 'event', 'dropped', 'row', 'parked', 'waits' or 'refused'."""

    outcome: str
    cause: str = ""
    detail: str = ""
    event: Fields | None = None
    states: tuple[StateTrial, ...] = ()

    def told(self) -> dict[str, Any]:
        return {**self._asdict(), "states": [state._asdict() for state in self.states]}


def try_again(
    flow: Flow,
    letter: Letter,
    attempt: int,
    change: Rewrite | None,
    master: MasterData,
    snapshots: SnapshotLookup,
) -> Trial:
    try:
        way = way_back(flow, letter, attempt, change)
    except ResendError as refused:
        return Trial("refused", detail=str(refused))
    if isinstance(way, RowToStore):
        if isinstance(way.row, DeadLetter):
            return Trial("parked", way.row.reason, way.row.detail)
        event = event_of(letter)
        return Trial("row", event=envelope.event_fields(event) if event else None)
    if letter.payload == letter.origin:
        return _payload(flow, way, master, snapshots)
    place = Position(letter.origin.topic, _NO_PARTITION, 0)
    return _event(flow, place, way.key, way.value or b"", snapshots)


def _payload(
    flow: Flow, way: OutboxMessage, master: MasterData, snapshots: SnapshotLookup
) -> Trial:
    place = Position(way.topic, 0, 0)
    payload = as_first_come(Payload(place, way.key, way.value, way.headers, 0), flow.ingest_topics)
    made = enricher(flow)(payload, master)
    first = made[0]
    reason = envelope.text(first.headers, envelope.REASON)
    if reason is not None:
        detail = envelope.text(first.headers, envelope.DETAIL) or ""
        return Trial("waits" if first.topic.startswith("retry.") else "parked", reason, detail)
    if first.topic == dropped_topic("enrich"):
        dropped = orjson.loads(first.value or b"{}")
        return Trial("dropped", dropped["reason"], dropped["detail"])
    trials = [
        _event(flow, Position(one.topic, _NO_PARTITION, 0), one.key, one.value or b"", snapshots)
        for one in made
        if one.topic in flow.event_topics
    ]
    states = tuple(state for trial in trials for state in trial.states)
    detail = f"and {len(trials) - 1} more events" if len(trials) > 1 else trials[0].detail
    return trials[0]._replace(detail=detail, states=states)


def _event(
    flow: Flow, place: Position, key: bytes | None, value: bytes, snapshots: SnapshotLookup
) -> Trial:
    try:
        record = EventReader.of(flow).read(place, key, value)
    except NoEvent as none:
        return Trial("parked", *none.args)
    takers = [entity for entity in flow.entities if record.type in entity.reads]
    states = tuple(_state(flow, entity, record, snapshots) for entity in takers)
    return Trial("event", event=orjson.loads(value), states=states)


def _state(
    flow: Flow, entity: Entity, record: EventRecord, snapshots: SnapshotLookup
) -> StateTrial:
    known = snapshots(entity.topic, record.entity_id.encode())
    before = None if known is None else snapshot.decode(known)
    state_before = None if before is None else before.state
    types = {row.name: row for row in flow.event_types}
    applier = Applier(entity, _RING_SIZE, types)
    applied = applier.apply(record.entity_id, before, [record])
    out_of_turn = applied.asks or bool(applied.held)
    if out_of_turn and record.revision:
        detail = "fold puts it in the place of what it corrects"
        return StateTrial(
            entity.name, record.entity_id, "changes", detail, state_before, state_before
        )
    if known is not None and out_of_turn:
        at_the_end = snapshot.decode(known)
        at_the_end.marks, at_the_end.retried_marks, at_the_end.asked = {}, {}, {}
        applied = applier.apply(record.entity_id, at_the_end, [record])
    names = entity.name, record.entity_id
    if applied.parked:
        detail = f"{applied.parked[0].reason}: {applied.parked[0].detail}"
        return StateTrial(*names, "parked", detail, state_before, state_before)
    if applied.duplicates:
        return StateTrial(*names, "unchanged", "it is folded already", state_before, state_before)
    assert applied.snapshot is not None
    after = applied.snapshot.state
    outcome, detail = "changes", ""
    if after == state_before:
        outcome, detail = "unchanged", "newer data stands there already"
    if out_of_turn:
        detail = "shown as if it came last; fold puts it where it belongs"
    return StateTrial(*names, outcome, detail, state_before, after)
