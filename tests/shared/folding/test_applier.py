import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.bursts import DIGEST_CHARS, Burst, holds, split
from shared.folding.code_fingerprint import fold_fingerprint
from shared.folding.event_clock import CLOCK_AHEAD_MAX_MS
from shared.folding.snapshot import Snapshot
from shared.model import Entity, Event, Fields
from shared.sample_domain import device
from tests.builders import event_record
from tests.oracle import expected_states

DEVICE = FLOW.entities[0]
APPLIER = Applier(DEVICE, ring_size=64)
_DAY_MS = 24 * 3_600_000


def _apply(records: list[EventRecord], before: Snapshot | None = None) -> Snapshot:
    after = APPLIER.apply("device-0001", before, records).snapshot
    assert after is not None
    return after


def _copy(original: Snapshot) -> Snapshot:
    return snapshot.decode(snapshot.encode(original, "fold"))


values = st.lists(st.floats(-50, 150, allow_nan=False), min_size=1, max_size=60)


@given(values, st.data())
@settings(max_examples=60)
def test_batch_cuts_and_overlaps_leave_the_state_as_it_is(
    numbers: list[float], data: st.DataObject
) -> None:
    records = [event_record(i, value=value) for i, value in enumerate(numbers)]
    whole = _apply(records)
    cut = data.draw(st.integers(0, len(records)))
    again_from = data.draw(st.integers(0, cut))
    piecewise = _copy(_apply(records[:cut])) if cut else None
    rest = APPLIER.apply("device-0001", piecewise, records[again_from:]).snapshot or piecewise
    assert rest is not None
    assert rest.state == whole.state
    assert rest.version == whole.version


@given(values, st.data())
@settings(max_examples=60)
def test_a_second_writing_of_enrich_has_no_effect(
    numbers: list[float], data: st.DataObject
) -> None:
    once = [event_record(i, value=value) for i, value in enumerate(numbers)]
    again_from = data.draw(st.integers(0, len(once) - 1))
    stop = data.draw(st.integers(again_from, len(once)))
    # a batch fails after `stop` records and is written again from `again_from`
    log = [*once[:stop], *once[again_from:]]
    twice = [
        record._replace(position=Position("event.reading.v1", 0, place))
        for place, record in enumerate(log)
    ]
    applied = APPLIER.apply("device-0001", None, twice)
    assert applied.snapshot is not None
    assert applied.snapshot.state == _apply(once).state
    assert applied.duplicates == stop - again_from
    assert applied.repeats == []


def test_the_fold_agrees_with_the_plain_one_on_late_doubled_and_future_times() -> None:
    random.seed(7)
    records = []
    for i in range(500):
        drift_ms = random.choice(
            [0, 0, -60_000, 90_000, 10 * CLOCK_AHEAD_MAX_MS, -8 * _DAY_MS, -20_000 * _DAY_MS]
        )
        record = event_record(i, value=random.uniform(0, 100))
        records.append(record._replace(time_ms=record.time_ms + drift_ms))
    events = [orjson.loads(event_value(record)) for record in records]
    assert _apply(records).state == expected_states(events)["device-0001"]


def test_a_devices_own_repeat_is_known_by_its_id() -> None:
    repeat = event_record(5, id="event-1", value=99.0)
    applied = APPLIER.apply("device-0001", None, [event_record(1), repeat])
    assert (applied.duplicates, applied.repeats) == (1, [(repeat.origin, None)])
    assert applied.snapshot is not None
    assert applied.snapshot.state["max"] == 21.5


def test_a_retried_event_is_folded_once() -> None:
    retried = event_record(9, id="was-waiting", origin=7, attempt=1)
    before = _apply([event_record(i) for i in (5, 6)])
    applied = APPLIER.apply(
        "device-0001",
        before,
        [retried, retried._replace(position=Position("event.reading.v1", 0, 10))],
    )
    assert (applied.folded, applied.duplicates, applied.asks) == (1, 1, False)


def test_a_retried_event_that_is_older_asks_for_a_refold_and_holds_what_follows() -> None:
    older = event_record(9, id="was-waiting", origin=3, attempt=1)
    before = _apply([event_record(i) for i in (5, 6)])
    version = before.version
    applied = APPLIER.apply("device-0001", before, [event_record(8), older, event_record(10)])
    assert applied.snapshot is not None
    assert (applied.folded, applied.asks, applied.held) == (1, True, [event_record(10)])
    after = _copy(applied.snapshot)
    assert (after.asked, after.version) == ({"was-waiting": 0}, version + 1)
    assert after.positions == {"event.reading.v1/0": 9}


def test_a_repeat_of_a_retried_event_asks_for_nothing() -> None:
    before = _apply([event_record(i) for i in (5, 6)])
    repeat = event_record(9, id="event-5", origin=5, attempt=1)
    applied = APPLIER.apply("device-0001", before, [repeat])
    assert (applied.duplicates, applied.asks) == (1, False)


def test_a_late_event_counts_but_neither_overwrites_nor_drives_the_machine() -> None:
    newest = event_record(1, value=30.0)
    late = event_record(2, value=95.0)._replace(time_ms=newest.time_ms - 1)
    state = _apply([newest, late]).state
    assert (state["count"], state["max"]) == (2, 95.0)
    assert (state["value"], state["status"]) == (30.0, "ACTIVE")


def test_of_two_events_of_one_time_the_later_arrival_counts() -> None:
    first = event_record(1, value=1.0)
    second = event_record(2, value=2.0)._replace(time_ms=first.time_ms, arrived_ms=first.arrived_ms)
    assert _apply([first, second]).state["value"] == 2.0


def test_a_clock_that_runs_ahead_does_not_lock_the_device_out() -> None:
    wrong = event_record(1, value=1.0)._replace(time_ms=4_000_000_000_000)
    right = event_record(2, value=2.0)._replace(
        time_ms=wrong.arrived_ms + CLOCK_AHEAD_MAX_MS + 1,
        arrived_ms=wrong.arrived_ms + CLOCK_AHEAD_MAX_MS + 1,
    )
    assert _apply([wrong, right]).state["value"] == 2.0


def test_a_clock_that_runs_ahead_blinds_for_no_time_at_all() -> None:
    wrong = event_record(1, value=1.0)._replace(time_ms=4_000_000_000_000)
    after = _copy(_apply([wrong, event_record(2, value=2.0)]))
    assert after.state["value"] == 2.0
    assert (after.clock_off, after.late) == (1, 0)


def test_a_clock_that_falls_back_does_not_freeze_the_device() -> None:
    today = event_record(0, value=25.0)
    hot = [event_record(i, value=95.0)._replace(time_ms=i * 60_000) for i in range(1, 1440)]
    after = _copy(_apply([today, *hot]))
    assert (after.state["value"], after.state["status"]) == (95.0, "ALARM")
    assert (after.clock_off, after.late) == (1439, 0)
    back = _apply([event_record(2000, value=30.0)], after)
    assert back.state["value"] == 30.0


def test_history_is_taken_at_its_word_where_nothing_newer_is_known() -> None:
    year_ms = 365 * 24 * 3_600_000
    old = [
        event_record(i, value=float(i))._replace(time_ms=1_700_000_000_000 - year_ms + minute)
        for i, minute in ((1, 60_000), (2, 0))
    ]
    after = _apply(old)
    assert (after.state["value"], after.clock_off, after.late) == (1.0, 0, 1)


def test_an_event_that_the_fold_refuses_is_parked_and_the_next_is_folded() -> None:
    bad = event_record(1)._replace(data={"no": "value"})
    applied = APPLIER.apply("device-0001", None, [event_record(0), bad, event_record(2)])
    assert [parked.record.id for parked in applied.parked] == ["event-1"]
    assert applied.snapshot is not None
    assert applied.snapshot.state["count"] == 2
    assert applied.snapshot.parked == ["event-1"]


def test_the_ring_forgets_the_oldest_id_and_no_other() -> None:
    applier = Applier(DEVICE, ring_size=3)
    before = applier.apply("d", None, [event_record(i) for i in range(4)]).snapshot
    repeats = [event_record(10 + i, id=f"event-{i}", attempt=1) for i in range(4)]
    applied = applier.apply("d", before, repeats[1:])
    assert applied.duplicates == 3
    assert (
        applier.apply(
            "d",
            applied.snapshot,
            [repeats[0]._replace(position=Position("event.reading.v1", 0, 99))],
        ).folded
        == 1
    )


def test_what_one_type_catches_up_with_does_not_push_out_the_ids_of_another() -> None:
    applier = Applier(DEVICE, ring_size=3)
    status = event_record(0, type="status_changed", id="status", data={"status": "offline"})
    before = applier.apply("d", None, [status, *(event_record(i) for i in range(1, 20))]).snapshot
    again = status._replace(position=Position("event.reading.v1", 0, 20), attempt=1)
    assert applier.apply("d", before, [again]).duplicates == 1


def test_an_id_is_known_whatever_type_it_comes_with() -> None:
    before = _apply([event_record(0, id="once")])
    other = event_record(1, type="status_changed", id="once", data={"status": "offline"}, attempt=1)
    assert APPLIER.apply("device-0001", before, [other]).duplicates == 1


def _told(after: Snapshot) -> Mapping[str, Sequence[Burst]]:
    return _copy(after).bursts.told() if after.bursts and after.bursts.told() else {}


def _batch(lines: int, at: int, *, of: str, arrived_ms: int = 0) -> list[EventRecord]:
    """Lines that came together, 600 of them at a time of the log."""
    return [
        event_record(at + n, id=f"{of}-{n}", value=float(n % 70))._replace(
            arrived_ms=1_700_000_000_000 + (arrived_ms or at) + n // 600
        )
        for n in range(lines)
    ]


@pytest.mark.parametrize("lines", [2, 9, 64, 65, 500, 2000])
def test_a_batch_that_is_sent_again_counts_once_whatever_its_size(lines: int) -> None:
    before = _apply(_batch(lines, 0, of="batch"))
    for again in (1, 2):
        between = [event_record(again * 10_000 - n) for n in range(30, 0, -1)]
        before = _apply(between, _copy(before))
        applied = APPLIER.apply("device-0001", before, _batch(lines, again * 10_000, of="batch"))
        assert (applied.folded, applied.duplicates) == (0, lines)
        before = applied.snapshot or before
    assert before.state["count"] == lines + 60


def test_what_a_spool_brings_again_counts_once() -> None:
    """Many requests of one device, each with an id of its own: the log gives them one time."""
    before = _copy(_apply(_batch(3000, 0, of="spooled")))
    applied = APPLIER.apply("device-0001", before, _batch(3000, 5000, of="spooled"))
    assert (applied.folded, applied.duplicates) == (0, 3000)


def test_a_part_of_a_batch_that_comes_again_counts_once_and_the_rest_counts() -> None:
    lines = _batch(2000, 0, of="batch")
    some = [line for n, line in enumerate(lines) if n % 3]
    again = _batch(2000, 5000, of="batch")
    applied = APPLIER.apply("device-0001", _copy(_apply(some)), again)
    assert (applied.folded, applied.duplicates) == (667, 1333)


def test_of_what_came_together_the_ids_are_forgotten_with_time_and_never_too_many() -> None:
    after: Snapshot | None = None
    for number in range(6):
        after = _apply(_batch(2000, number * 10_000, of=f"batch-{number}"), after)
        after = _copy(after)
        assert after.bursts is not None
        digests = [one for _, ids in after.bursts.told()["reading"] for one in split(ids)]
        assert len(digests) == min((number + 1) * 2000, 4096)
        assert digests[-1] == snapshot.id_digest(f"batch-{number}-1999")
    assert after is not None
    single = [event_record(100_000 + n) for n in range(64)]
    assert "reading" in _told(_apply(single[:60], after))
    assert _told(_apply(single[60:], after)) == {}


def test_singles_of_a_busy_device_are_no_burst() -> None:
    after = _apply([event_record(n)._replace(arrived_ms=n // 8) for n in range(800)])
    assert after.bursts is None
    assert len(after.rings["reading"]) == 64 * DIGEST_CHARS


def test_a_digest_is_found_only_where_one_begins() -> None:
    ring = "ABCDEFGHIJKL" + "MNOPQRSTUVWX"
    assert holds(ring, "MNOPQRSTUVWX")
    assert not holds(ring, "GHIJKLMNOPQR")


def test_a_snapshot_comes_back_from_its_bytes_as_it_was() -> None:
    before = _apply([event_record(0), event_record(1)._replace(data={})])
    assert _copy(before) == before


def test_an_event_comes_back_from_its_bytes_as_it_was() -> None:
    record = event_record(3, attempt=2)
    assert read_event(record.position, event_value(record)) == record


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"\xff",
        b'{"id": 1}',
        event_value(event_record()).replace(b'"device-0001"', b"17"),
    ],
)
def test_a_foreign_record_is_no_event_and_says_where_it_stands(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"event\.reading\.v1/0/7"):
        read_event(Position("event.reading.v1", 0, 7), value)


def test_a_fold_with_other_code_has_another_fingerprint() -> None:
    def other(state: Fields, _event: Event) -> Fields:
        return state

    assert fold_fingerprint(device.fold) == fold_fingerprint(device.fold)
    assert fold_fingerprint(device.fold) != fold_fingerprint(other)


def test_a_fold_is_given_no_state_to_change_by_mistake() -> None:
    """The applier goes on with the old state where a fold raises halfway."""

    def spoils(_state: Fields, _event: Event) -> Fields:
        raise RuntimeError("halfway")

    applier = Applier(Entity("e", ("reading",), lambda _id: {"n": 0}, spoils), 4)
    applied = applier.apply("e", None, [event_record(0)])
    assert applied.snapshot is not None
    assert applied.snapshot.state == {"n": 0}
    line = spoils.__code__.co_firstlineno + 1
    assert applied.parked[0].detail == f"RuntimeError: halfway (test_applier.py, line {line})"


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "TypeError: a fold returns the new state, a dict, not NoneType"),
        ({"n": {1, 2}}, "TypeError: Type is not JSON serializable: set"),
        ({"n": 1 << 70}, "TypeError: Integer exceeds 64-bit range"),
    ],
)
def test_what_is_no_state_parks_its_event_and_nothing_of_it_stays(returned: Any, says: str) -> None:
    applier = Applier(Entity("e", ("reading",), lambda _id: {"n": 0}, lambda _s, _e: returned), 4)
    applied = applier.apply("e", None, [event_record(0)])
    assert applied.snapshot is not None
    assert applied.snapshot.state == {"n": 0}
    assert applied.parked[0].detail == says


def test_an_event_that_would_make_the_state_too_large_is_parked_and_the_state_stays() -> None:
    def keep_all(state: Fields, event: Event) -> Fields:
        return {**state, event.id: event.data["text"]}

    applier = Applier(Entity("thing", ("reading",), lambda _: {}, keep_all), ring_size=64)
    records = [
        event_record(i)._replace(data={"text": "x" * 1_000_000 if i else "first"}) for i in range(9)
    ]
    applied = applier.apply("device-0001", None, records)
    assert [parked.record.id for parked in applied.parked] == ["event-8"]
    assert "bytes" in applied.parked[0].detail
    assert applied.snapshot is not None
    assert len(snapshot.encode(applied.snapshot, "f")) < 8 * 1024 * 1024


def test_an_event_that_was_parked_is_folded_when_it_is_sent_on_again_and_once() -> None:
    bad = event_record(1)._replace(data={"no": "value"})
    before = _apply([event_record(0), bad])
    mended = [event_record(place, id=bad.id, origin=1, attempt=1) for place in (2, 3)]
    applied = APPLIER.apply("device-0001", before, mended)
    assert (applied.folded, applied.duplicates) == (1, 1)
    assert applied.snapshot is not None
    assert applied.snapshot.state["count"] == 2
    assert applied.snapshot.parked == []


def test_a_correction_is_asked_for_and_not_folded_on_top_of_what_it_corrects() -> None:
    before = _apply([event_record(0), event_record(1)])
    state, version = before.state, before.version
    corrections = [event_record(2 + n, id="event-1", value=99.0, revision=n) for n in (1, 2)]
    applied = APPLIER.apply("device-0001", before, [*corrections, event_record(5)])
    assert applied.snapshot is not None
    after = _copy(applied.snapshot)
    assert (after.state, after.version) == (state, version)
    assert after.asked == {"event-1": 2}
    assert (applied.asks, applied.held) == (True, [event_record(5)])
    lower = event_record(6, id="event-1", revision=1)
    more = APPLIER.apply("device-0001", after, [*applied.held, lower])
    assert (more.snapshot, more.asks, more.held) == (None, False, [event_record(5), lower])


@given(st.permutations(range(8)), st.lists(st.floats(-50, 150), min_size=8, max_size=8))
@settings(max_examples=60)
def test_in_whatever_order_events_come_what_is_counted_and_what_is_latest_is_the_same(
    order: list[int], numbers: list[float]
) -> None:
    made = [event_record(i, value=value) for i, value in enumerate(numbers)]
    in_order = _apply(made).state
    mixed = _apply(
        [
            made[which]._replace(
                position=Position("event.reading.v1", 0, place),
                origin=Position("ingest.telemetry.v1", 0, place),
            )
            for place, which in enumerate(order)
        ]
    ).state
    same = ("count", "min", "max", "value", "value_at_ms", "area", "last_seen_ms")
    assert {name: mixed[name] for name in same} == {name: in_order[name] for name in same}


@given(st.lists(st.tuples(st.floats(-50, 150), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=60)
def test_late_events_never_drive_the_machine(numbers: list[tuple[float, bool]]) -> None:
    """It goes the way that it would have gone without them."""
    records = [
        event_record(place, value=value)._replace(
            time_ms=1_700_000_000_000 + (place if not late or not place else -place)
        )
        for place, (value, late) in enumerate(numbers)
    ]
    in_time = [record for record, (_, late) in zip(records, numbers, strict=True) if not late]
    in_time = in_time if not numbers[0][1] else [records[0], *in_time]
    machine = ("status", "status_changes", "value", "value_at_ms")
    whole, without = _apply(records).state, _apply(in_time).state
    assert {name: whole[name] for name in machine} == {name: without[name] for name in machine}
