"""An entity that an event has deleted, and what becomes of the events around it."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from shared.events.envelope import EventRecord, Position
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applied, Applier
from shared.folding.snapshot import Snapshot
from shared.sample_domain import device
from tests.builders import event_record

DEVICE = FLOW.entities[0]
APPLIER = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})


def _retired(offset: int, arrived_ms: int) -> EventRecord:
    return event_record(
        offset,
        id=f"retired-{offset}",
        type="retired",
        position=Position("event.retired.v1", 0, offset),
        arrived_ms=arrived_ms,
        time_ms=arrived_ms,
        data={},
    )._replace(origin=Position("ingest.status.v1", 0, offset))


def _reading(offset: int, value: float = 21.5) -> EventRecord:
    return event_record(offset, value=value, arrived_ms=offset * 10, time_ms=offset * 10)


def _apply(records: list[EventRecord], before: Snapshot | None = None) -> Applied:
    return APPLIER.apply("device-0001", before, records)


def _after(records: list[EventRecord], before: Snapshot | None = None) -> Snapshot:
    after = _apply(records, before).snapshot
    assert after is not None
    return snapshot.decode(snapshot.encode(after, "f"))


def test_a_deleted_entity_is_as_it_was_before_its_first_event_and_says_so() -> None:
    after = _after([_reading(1), _retired(0, arrived_ms=15)])
    assert (after.deleted, after.version) == (True, 2)
    assert after.state == device.initial("device-0001")
    assert snapshot.read_facts(snapshot.encode(after, "f")).deleted


def test_the_next_event_starts_it_anew_with_a_version_above() -> None:
    deleted = _after([_reading(1), _reading(2), _retired(0, arrived_ms=25)])
    again = _after([_reading(3)], deleted)
    assert (again.deleted, again.version, again.state["count"]) == (False, 4, 1)


def test_what_arrived_before_the_deletion_does_not_bring_it_back() -> None:
    deleted = _after([_reading(1), _retired(0, arrived_ms=25)])
    after = _after([_reading(2)], deleted)
    assert (after.deleted, after.state) == (True, device.initial("device-0001"))


def test_a_deletion_that_comes_after_newer_events_deletes_nothing() -> None:
    after = _after([_reading(1), _reading(3), _retired(0, arrived_ms=25)])
    assert (after.deleted, after.state["count"]) == (False, 2)


def test_a_device_in_alarm_is_cleared_when_it_is_retired() -> None:
    raised, cleared = _apply([_reading(1, value=90.0), _retired(0, arrived_ms=15)]).emitted
    assert (raised.type, cleared.type, cleared.cause) == (
        "alarm_raised",
        "alarm_cleared",
        "retired-0",
    )
    assert cleared.data == {"value": None, "area": "area-01"}


def test_it_is_deleted_once() -> None:
    events = [_reading(1, value=90.0), _retired(0, arrived_ms=15), _retired(1, arrived_ms=16)]
    assert [record.type for record in _apply(events).emitted] == ["alarm_raised", "alarm_cleared"]


def test_whether_it_lives_does_not_hang_on_the_order_of_the_types() -> None:
    """The readings keep their order, as their topic does; the deletions come anywhere between."""
    readings = [_reading(1), _reading(2), _reading(5)]
    ends = [_retired(0, arrived_ms=15), _retired(1, arrived_ms=25)]
    for last_end, deleted in ((25, False), (55, True)):
        own = [ends[0], ends[1]._replace(arrived_ms=last_end)]
        outcomes = {
            _after(list(order)).deleted
            for order in permutations([*readings, *own])
            if [r for r in order if r.type == "reading"] == readings
            and [r for r in order if r.type == "retired"] == own
        }
        assert outcomes == {deleted}


some_kinds = st.lists(st.sampled_from(["reading", "retired"]), min_size=1, max_size=30)


@given(some_kinds, st.data())
def test_batch_cuts_and_overlaps_leave_a_life_as_it_is(
    kinds: list[str], data: st.DataObject
) -> None:
    records = [
        _reading(place) if kind == "reading" else _retired(place, arrived_ms=place * 10)
        for place, kind in enumerate(kinds)
    ]
    cut = data.draw(st.integers(0, len(records)))
    again_from = data.draw(st.integers(0, cut))
    piecewise = _after(records[:cut]) if cut else None
    rest = APPLIER.apply("device-0001", piecewise, records[again_from:]).snapshot or piecewise
    assert rest is not None
    whole = _after(records)
    assert (rest.state, rest.version, rest.deleted) == (whole.state, whole.version, whole.deleted)
