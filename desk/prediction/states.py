"""Events -> the states that they would make, and what these would emit. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

from desk.prediction.fate import NO_PARTITION, SnapshotLookup
from shared.events.envelope import EventRecord, Position
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.model import Entity, Fields

_RING_SIZE = 64


class StateTrial(NamedTuple):
    entity: str
    id: str
    outcome: str  # 'changes', 'unchanged', 'parked'
    detail: str
    before: Fields | None
    after: Fields | None
    version: int | None = None  # of `before`


class After(NamedTuple):
    states: tuple[StateTrial, ...]
    derived: Sequence[EventRecord]


def states_after(flow: Flow, events: Iterable[EventRecord], snapshots: SnapshotLookup) -> After:
    """As if fold read these events next, and then what their states emit."""
    records = list(events)
    given = len(records)
    types = {row.name: row for row in flow.event_types}
    states = []
    for entity in _makers_first(flow.entities):
        applier = Applier(entity, _RING_SIZE, types)
        of_each: dict[str, list[EventRecord]] = defaultdict(list)
        for record in records:
            if record.type in entity.reads:
                of_each[record.entity_id].append(record)
        for entity_id, its in of_each.items():
            known = snapshots(entity.topic, entity_id.encode())
            state, emitted = _state(applier, entity_id, its, known)
            states.append(state)
            for record in emitted:
                if record.type not in types:  # a deadline of an action
                    continue
                place = Position(types[record.type].topic, NO_PARTITION, len(records))
                records.append(record._replace(position=place))
    return After(tuple(states), records[given:])


def _makers_first(entities: Sequence[Entity]) -> Iterable[Entity]:
    """Who emits events before who folds these; the flow has no circles."""
    by_name = {row.name: row for row in entities}
    makers = {
        row.name: [maker.name for maker in entities if {*maker.emits} & {*row.reads}]
        for row in entities
    }
    return (by_name[name] for name in TopologicalSorter(makers).static_order())


def _state(
    applier: Applier, entity_id: str, records: Sequence[EventRecord], known: bytes | None
) -> tuple[StateTrial, Sequence[EventRecord]]:
    before = None if known is None else snapshot.decode(known)
    was, version = (before.state, before.version) if before else (None, None)
    tried = StateTrial(applier.entity.name, entity_id, "changes", "", was, was, version)
    applied = applier.apply(entity_id, before, records)
    out_of_turn = applied.asks or bool(applied.held)
    if out_of_turn and any(record.revision for record in records):
        return tried._replace(detail="fold puts it in the place of what it corrects"), ()
    if known is not None and out_of_turn:
        at_the_end = snapshot.decode(known)
        at_the_end.marks, at_the_end.retried_marks, at_the_end.asked = {}, {}, {}
        applied = applier.apply(entity_id, at_the_end, records)
    if applied.folded:
        assert applied.snapshot is not None
        tried = tried._replace(after=applied.snapshot.state)
    if applied.parked:
        detail = f"{applied.parked[0].reason}: {applied.parked[0].detail}"
        return tried._replace(outcome="parked", detail=detail), applied.emitted
    if not applied.folded:
        return tried._replace(outcome="unchanged", detail="it is folded already"), ()
    if tried.after == was:
        tried = tried._replace(outcome="unchanged", detail="newer data stands there already")
    if out_of_turn:
        tried = tried._replace(detail="shown as if it came last; fold puts it where it belongs")
    return tried, applied.emitted
