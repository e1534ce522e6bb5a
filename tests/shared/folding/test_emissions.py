"""What a change emits, and that it is emitted once by id, however often it is folded."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.flow import FLOW
from shared.folding import emissions, snapshot
from shared.folding.applier import Applied, Applier
from shared.folding.snapshot import Snapshot
from shared.ids import full_id
from shared.model import Draft, Entity, EventType, Fields
from tests.builders import event_record

DEVICE = FLOW.entities[0]
TYPES = {row.name: row for row in FLOW.event_types}
APPLIER = Applier(DEVICE, ring_size=64, event_types=TYPES)

values = st.lists(st.sampled_from([10.0, 70.0, 90.0]), min_size=1, max_size=40)


def _readings(numbers: list[float]) -> list[EventRecord]:
    return [event_record(i, value=value) for i, value in enumerate(numbers)]


def _apply(records: list[EventRecord], before: Snapshot | None = None) -> Applied:
    copy = snapshot.decode(snapshot.encode(before, "f")) if before else None
    return APPLIER.apply("device-0001", copy, records)


def test_an_alarm_is_raised_once_and_cleared_once() -> None:
    emitted = _apply(_readings([90, 95, 70, 50, 90])).emitted
    assert [(record.type, record.cause) for record in emitted] == [
        ("alarm_raised", "event-0"),
        ("alarm_cleared", "event-3"),
        ("alarm_raised", "event-4"),
    ]
    assert emitted[1].data == {"value": 50.0, "area": "area-01"}
    assert emitted[1].origin == Position("event.reading.v1", 0, 3)
    assert len({record.id for record in emitted}) == 3


def test_a_late_reading_raises_no_alarm() -> None:
    newest = event_record(1, value=30.0)
    late = event_record(2, value=95.0)._replace(time_ms=newest.time_ms - 1)
    assert _apply([newest, late]).emitted == []


def test_a_repeat_emits_nothing() -> None:
    repeat = event_record(7, id="event-0", value=95.0)
    assert len(_apply([event_record(0, value=90.0), repeat]).emitted) == 1


@given(values, st.data())
@settings(max_examples=60)
def test_wherever_a_batch_ends_and_a_rebuild_begins_the_same_is_emitted(
    numbers: list[float], data: st.DataObject
) -> None:
    """A job that has lost its checkpoint publishes what the last snapshot has, and goes on from any
    place that its group had reached."""
    records = _readings(numbers)
    whole = {record.id: record for record in _apply(records).emitted}
    found: dict[str, EventRecord] = {}
    before: Snapshot | None = None
    place = 0
    while place < len(records):
        again_from = data.draw(st.integers(0, place))
        end = data.draw(st.integers(place + 1, len(records)))
        applied = _apply(records[again_from:end], before)
        published = data.draw(st.booleans())
        if published:
            found |= {record.id: record for record in applied.emitted}
        before = applied.snapshot
        assert before is not None
        if not published:
            read = snapshot.decode(snapshot.encode(before, "f"))
            found |= {record.id: record for record in read.emissions}
        place = end
    assert found == whole


def test_a_batch_without_news_keeps_the_last_emissions_until_the_next_one() -> None:
    first = _apply(_readings([90.0]))
    assert first.snapshot is not None
    assert [record.type for record in first.snapshot.emissions] == ["alarm_raised"]
    assert _apply(_readings([90.0]), first.snapshot).snapshot is None
    second = _apply([event_record(1, value=90.0)], first.snapshot)
    assert second.snapshot is not None
    assert second.snapshot.emissions == []


def test_a_snapshot_has_room_for_the_newest_emissions_only() -> None:
    (alarm,) = _apply(_readings([90.0])).emitted
    size = len(event_value(alarm))
    many = [alarm._replace(id=f"{number:036}") for number in range(10_000)]
    kept = emissions.last(many)
    assert kept == many[-len(kept) :]
    assert emissions.KEPT_BYTES_MAX - size < len(kept) * size <= emissions.KEPT_BYTES_MAX


def test_an_emission_is_an_event_as_any_other() -> None:
    (alarm,) = _apply(_readings([90.0])).emitted
    assert read_event(alarm.position, event_value(alarm)) == alarm
    assert orjson.loads(event_value(alarm))["cause"] == "event-0"


def _deriving(*drafts: Any) -> Entity:
    def derive(_before: Fields, _after: Fields, _event: object) -> Iterable[Any]:
        return drafts

    def count(state: Fields, _event: object) -> Fields:
        return {"n": state["n"] + 1}

    return Entity(
        "e", ("reading",), lambda _: {"n": 0}, count, derive=derive, emits=("alarm_raised",)
    )


ALARM = Draft("alarm_raised", 5, {"value": 1.0, "area": None})


@pytest.mark.parametrize(
    ("draft", "says"),
    [
        ({"type": "alarm_raised"}, "e derives {'type': 'alarm_raised'}, not a Draft"),
        (ALARM._replace(type="alarm_cleared"), "e does not declare that it emits 'alarm_cleared'"),
        (ALARM._replace(data={"value": 1.0}), "alarm_raised breaks its contract: field_missing"),
        (ALARM._replace(entity_id="no id"), "alarm_raised for 'no id': an entity id has"),
        (ALARM._replace(time_ms=1 << 60), "alarm_raised: its time is out of the years 1 to 9999"),
        (ALARM._replace(data={"value": 1.0, "area": "x" * 300_000}), "262144 may be"),
    ],
)
def test_what_is_no_event_parks_its_cause_and_changes_nothing(draft: Any, says: str) -> None:
    applier = Applier(_deriving(ALARM, draft), 64, TYPES)
    applied = applier.apply("device-0001", None, [event_record(0)])
    (parked,) = applied.parked
    assert (parked.reason, applied.emitted) == ("derive_failed", [])
    assert says in parked.detail
    assert applied.snapshot is not None
    assert applied.snapshot.state == {"n": 0}


def test_an_emission_that_no_snapshot_could_hold_parks_its_cause() -> None:
    data: Fields = {}
    for _ in range(251):
        data = {"in": data}
    assert event_value(event_record(0)._replace(data=data))
    applier = Applier(_deriving(ALARM._replace(data=data)), 64)
    applied = applier.apply("device-0001", None, [event_record(0)])
    assert [parked.reason for parked in applied.parked] == ["derive_failed"]
    assert applied.snapshot is not None
    assert snapshot.encode(applied.snapshot, "fold")


def test_two_of_a_type_have_two_ids_and_a_tenant_keeps_its_own() -> None:
    applier = Applier(_deriving(ALARM, ALARM._replace(entity_id="hall-1")), 64, TYPES)
    tenants_own = full_id("acme", "device-0001")
    one, other = applier.apply(tenants_own, None, [event_record(0, entity_id=tenants_own)]).emitted
    assert one.id != other.id
    assert (one.entity_id, other.entity_id) == (tenants_own, "acme/hall-1")


def test_a_derived_event_is_judged_by_its_id_alone() -> None:
    """Several entities may cause events of one type for one other entity, in any order."""
    sink = Entity("hall", ("alarm_raised",), lambda _: {"n": 0}, lambda s, _e: {"n": s["n"] + 1})
    causes = [Position("event.reading.v1", 0, offset) for offset in (9, 3, 3)]
    log = [
        event_record(place, type="alarm_raised", cause=f"event-{origin.offset}")._replace(
            origin=origin, id=f"alarm-{origin.offset}"
        )
        for place, origin in enumerate(causes)
    ]
    applied = Applier(sink, 64).apply("hall-1", None, log)
    assert (applied.folded, applied.duplicates) == (2, 1)


def test_an_emission_is_written_in_the_shape_of_today() -> None:
    types = {"alarm_raised": EventType("alarm_raised", upcasters=(lambda data: data,))}
    (alarm,) = (
        replace(APPLIER, entity=_deriving(ALARM), event_types=types)
        .apply("device-0001", None, [event_record(0)])
        .emitted
    )
    assert alarm.shape == 2


def test_what_may_not_follow_from_an_event_of_that_type_parks_it() -> None:
    entity = replace(_deriving(ALARM), emits_on={"reading": ()})
    applied = Applier(entity, 64, TYPES).apply("device-0001", None, [event_record(0)])
    (parked,) = applied.parked
    assert "e does not declare that it emits 'alarm_raised' on 'reading'" in parked.detail
