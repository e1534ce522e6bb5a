"""Of each field the event that gave it its value, by folding once more."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gateway.history.causes import as_folded, fold, told_causes
from shared.events.envelope import EventRecord, Position
from shared.events.event_reader import EventReader
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.folding.applier import Applier
from shared.model import Entity, Event, EventType, Fields
from tests.builders import event_record

LOG = "event.reading.v1/0"


def _kept(state: Fields, event: Event) -> Fields:
    return {**state, "count": state["count"] + 1, **event.data}


TANK = Entity("tank", ("reading",), lambda _: {"count": 0, "owner": "nobody"}, _kept)


def _in_litres(data: Fields) -> Fields:
    return {"litres": 4 * data["gallons"]}


FLOW_OF_TANKS: Flow = replace(
    FLOW,
    event_types=tuple(
        EventType("reading", upcasters=(_in_litres,)) if row.name == "reading" else row
        for row in FLOW.event_types
    ),
)


def _event(offset: int, **data: Any) -> EventRecord:
    return event_record(offset, data=data, shape=2)


def _causes(
    events: Iterable[EventRecord], shown: Fields, until: int = 99, entity: Entity = TANK
) -> dict[str, Any]:
    folded = as_folded(events, EventReader.of(FLOW_OF_TANKS), {LOG: until})
    found = told_causes(
        shown, fold(Applier(entity, 0), "device-0001", folded), ["ingest.telemetry.v1"]
    )
    return {name: told["event"] and told["event"]["id"] for name, told in found.items()}


def test_each_field_has_the_event_that_changed_it_last() -> None:
    events = [_event(1, a=1, b=1), _event(2, a=2), _event(3, a=2)]
    shown = {"count": 3, "owner": "nobody", "a": 2, "b": 1}
    assert _causes(events, shown) == {
        "count": "event-3",
        "owner": None,  # as it began
        "a": "event-2",  # the same value again changed nothing
        "b": "event-1",
    }


def test_an_event_that_came_late_stands_where_it_belongs() -> None:
    mended = _event(9, a=5)._replace(arrived_ms=1_700_000_000_001, origin=_origin(1))
    events = [_event(2, a=2), mended]
    assert _causes(events, {"count": 2, "a": 2}) == {"count": "event-2", "a": "event-2"}


def test_what_the_snapshot_does_not_hold_yet_is_left_out() -> None:
    events = [_event(1, a=1), _event(2, a=2)]
    assert _causes(events, {"a": 1}, until=1) == {"a": "event-1"}


def test_events_of_an_old_shape_are_lifted_and_of_an_unknown_one_taken_for_todays() -> None:
    events = [
        event_record(1, data={"gallons": 2}, shape=1),
        event_record(2, data={"colour": "red"}, shape=0),
    ]
    shown = {"litres": 8, "colour": "red"}
    assert _causes(events, shown) == {"litres": "event-1", "colour": "event-2"}


def test_a_field_that_comes_out_otherwise_has_no_event_but_a_reason() -> None:
    folded = fold(Applier(TANK, 0), "device-0001", [_event(1, a=1)])
    told = told_causes({"a": 2, "count": 1}, folded, [])
    assert told["a"]["event"] is None
    assert "another value" in told["a"]["because"]
    assert told["count"]["event"]["id"] == "event-1"


def test_an_event_that_the_fold_does_not_take_has_set_nothing() -> None:
    def fails(state: Fields, event: Event) -> Fields:
        if event.data["a"] == 2:
            raise ValueError("no")
        return _kept(state, event)

    events = [_event(1, a=1), _event(2, a=2)]
    shown = {"a": 1, "count": 1}
    entity = replace(TANK, fold=fails)
    assert _causes(events, shown, entity=entity) == {"a": "event-1", "count": "event-1"}


def test_an_event_says_its_payload_or_what_it_was_derived_from_and_what_was_looked_up() -> None:
    part = _event(1, a=1)._replace(id="p#3", saw={"device/x": 2}, revision=4)
    derived = _event(2, b=1)._replace(origin=Position("event.alarm_raised.v1", 0, 7))
    folded = fold(Applier(TANK, 0), "device-0001", [part, derived])
    told = told_causes({"a": 1, "b": 1}, folded, ["ingest.telemetry.v1"])
    first, second = told["a"]["event"], told["b"]["event"]
    assert first["payload"] == {"id": "p", "origin": "ingest.telemetry.v1/0/1"}
    assert (first["saw"], first["revision"]) == ({"device/x": 2}, 4)
    assert second["derived_from"] == "event.alarm_raised.v1/0/7"
    assert "payload" not in second


def _origin(offset: int) -> Position:
    return Position("ingest.telemetry.v1", 0, offset)
