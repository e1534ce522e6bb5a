"""The handler alone, over a state of its own; Spark's part is in test_race."""

from typing import Any

import orjson
import pytest
from pyspark.sql import Row

from clients.kafka.records import Outgoing, Record
from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import FLOW
from shared.folding import refolding, snapshot
from shared.folding.applier import Applier
from shared.folding.code_fingerprint import entity_fingerprint
from stream_jobs.fold import rebuild
from stream_jobs.fold.bucket_fold import BucketFold
from stream_jobs.persist.rows import EventRow, RowMaker
from stream_jobs.state import paged_states
from stream_jobs.state.buckets import packed_rows
from stream_jobs.state.bulk_map_state import States
from tests import every_event
from tests.builders import event_record

BUCKET = 7


@pytest.fixture(autouse=True, params=["in rows", "in pages"])
def where_snapshots_are(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in pages":
        monkeypatch.setattr(paged_states, "_ASKED_MIN", 1)


class MapState(dict[Any, Any]):
    """As the map state of Spark answers."""

    def getValue(self, key: tuple[str, str]) -> tuple[bytes] | None:  # noqa: N802
        return self.get(key)

    def updateValue(self, key: tuple[str, str], value: tuple[bytes]) -> None:  # noqa: N802
        self[key] = value

    def removeKey(self, key: tuple[str, str]) -> None:  # noqa: N802
        self.pop(key, None)


class Kept(MapState):
    @property
    def held(self) -> list[str]:
        """Of which entities something is kept until they are folded anew."""
        return [entity_id for entity, entity_id in self if entity == "device held"]

    @property
    def snapshots(self) -> dict[str, bytes]:
        own = {key: value for key, (value,) in self.items() if key[0] == "device"}
        pages = [value for key, (value,) in self.items() if key[1].startswith("page ")]
        found = {
            key: value for page in pages for key, value in paged_states._unpacked(page).items()
        }
        return {entity_id: value for (_, entity_id), value in (found | own).items()}

    @property
    def burials(self) -> list[str]:
        """The spans of time that are known to have some."""
        return [name for entity, name in self if entity == "" and not name.startswith("page")]


class Handle:
    def __init__(self, states: Kept) -> None:
        self._states = states

    def getMapState(self, *_names: object) -> Kept:  # noqa: N802
        return self._states


def _fold(
    states: Kept,
    *batches: list[tuple[bytes | None, bytes, EventRecord]],
    flow: str = "shared.flow:FLOW",
) -> list[Outgoing]:
    """Each batch is a list of (key, value, where it stands)."""
    packed = []
    for batch in batches:
        records = [(*place.position, key, value) for key, value, place in batch]
        frame = packed_rows({BUCKET: records})
        packed += [Row(**row) for row in frame.to_pylist()]
    processor = BucketFold(flow, ring_size=64, deleted_kept_s=3600)
    processor.init(States(Handle(states)))  # type: ignore[arg-type]
    return list(processor.handleInputRows(BUCKET, iter(packed), None))


def _written(record: EventRecord) -> tuple[bytes, bytes, EventRecord]:
    return record.entity_id.encode(), event_value(record), record


def test_records_are_folded_in_log_order_however_they_come() -> None:
    records = [event_record(i, value=float(value)) for i, value in enumerate((90, 70, 10, 85))]
    states = Kept()
    row, *alarms = _fold(states, [_written(records[i]) for i in (3, 1)], [_written(records[2])],
                         [_written(records[0])])  # fmt: skip
    assert [alarm.topic for alarm in alarms] == [
        "event.alarm_raised.v1",
        "event.alarm_cleared.v1",
        "event.alarm_raised.v1",
    ]
    state = orjson.loads(row.value)
    assert (row.topic, row.key) == ("state.device.v1", b"device-0001")
    assert (state["count"], state["value"], state["status_changes"]) == (4, 85.0, 3)
    assert states.snapshots == {"device-0001": row.value}


def test_an_alarm_goes_to_the_topic_of_all_events_as_it_is() -> None:
    hot = [_written(event_record(0, value=90.0))]
    _, own, copy = _fold(Kept(), hot, flow="tests.every_event:FLOW")
    assert own.topic == "event.alarm_raised.v1"
    assert copy == own._replace(topic="events.all.v1")


def test_what_a_rebuild_emits_again_goes_there_too() -> None:
    alarm = event_record(0)._replace(type="alarm_raised")
    own, copy = rebuild._events(every_event.FLOW, [alarm, alarm._replace(type="gone")])
    assert (own.topic, copy) == ("event.alarm_raised.v1", own._replace(topic="events.all.v1"))


def test_what_a_clock_made_of_the_events_is_told_to_spark() -> None:
    ahead = event_record(1)._replace(time_ms=4_000_000_000_000)
    late = event_record(2)._replace(time_ms=1_700_000_000_000 - 1)
    told = _fold(Kept(), [_written(event_record(0)), _written(ahead), _written(late)])[-1]
    assert told.asDict() == {"late": 1, "clock_off": 1}


def test_the_next_batch_goes_on_from_the_state() -> None:
    states = Kept()
    _fold(states, [_written(event_record(0))])
    (row,) = _fold(states, [_written(event_record(0)), _written(event_record(1))])
    assert orjson.loads(row.value)["count"] == 2


def _deep(record: EventRecord) -> bytes:
    """JSON can be read to a greater depth than it is written to."""
    value = event_value(record._replace(data={"value": "deep"}))
    return value.replace(b'"deep"', b"[" * 400 + b"]" * 400)


def test_what_is_no_event_of_its_topic_and_key_is_parked_and_the_rest_folded() -> None:
    good = event_record(0)
    rows = _fold(
        Kept(),
        [
            _written(good),
            (b"device-0002", event_value(event_record(1)), event_record(1)),
            (None, b"no event", event_record(2)),
            _written(event_record(3, type="other")),
            (b"device-0001", _deep(event_record(4)), event_record(4)),
        ],
    )
    parked = {
        row.value: dict(row.headers)["ce_reason"] for row in rows if row.topic == "dlq.fold.v1"
    }
    assert parked == {
        event_value(event_record(1)): b"wrong_key",
        b"no event": b"no_event",
        event_value(event_record(3, type="other")): b"wrong_type",
        _deep(event_record(4)): b"not_writable",
    }
    (state,) = [orjson.loads(row.value) for row in rows if row.topic == "state.device.v1"]
    assert state["count"] == 1


def test_an_event_that_the_fold_refuses_is_parked_as_it_stood() -> None:
    bad = event_record(0)._replace(data={"no": "value"})
    dead, state = _fold(Kept(), [_written(bad)])
    assert (dead.topic, dead.value) == ("dlq.fold.v1", event_value(bad))
    assert orjson.loads(state.value)["_meta"]["parked"] == [bad.id]


def test_what_the_ring_knows_is_told_by_its_place_in_the_ingest_log() -> None:
    again = event_record(5, id="event-1")
    told, state = _fold(Kept(), [_written(r) for r in (event_record(1), again, again)])
    assert told.topic == "repeat.fold.v1"
    assert orjson.loads(told.value) == {"ingest.telemetry.v1/0": [5]}
    assert orjson.loads(state.value)["count"] == 1


def test_what_a_change_emits_stands_in_its_topic_with_the_usual_envelope() -> None:
    _, alarm = _fold(Kept(), [_written(event_record(3, value=90.0))])
    headers = list(alarm.headers)
    record = Record(Position(alarm.topic, 0, 0), alarm.key, alarm.value, headers)
    row = RowMaker.of(FLOW).make(record)
    assert isinstance(row, EventRow)
    assert (row.type, row.entity_id) == ("alarm_raised", "device-0001")
    assert row.event_id == dict(headers)["ce_id"].decode()
    assert row.origin == "event.reading.v1/0/3"
    assert row.completion_topic == "completion.alarm_raised.v1"


def _retired(offset: int, arrived_ms: int) -> EventRecord:
    retired = event_record(offset, id=f"retired-{offset}", type="retired", data={})
    return retired._replace(
        position=Position("event.retired.v1", 0, offset),
        origin=Position("ingest.status.v1", 0, offset),
        arrived_ms=arrived_ms,
    )


def test_a_deleted_entity_is_known_for_a_while_and_then_a_null() -> None:
    states, first = Kept(), event_record(0)
    hour_ms = 3600 * 1000
    gone = _retired(0, first.arrived_ms + 1)
    *_, last = _fold(states, [_written(first), _written(gone)])
    assert orjson.loads(last.value)["_meta"]["deleted"] is True
    others = [
        event_record(1 + after_ms, entity_id="device-0002")._replace(
            arrived_ms=gone.arrived_ms + after_ms
        )
        for after_ms in (hour_ms - 1, hour_ms + hour_ms // 64)
    ]
    assert [row.key for row in _fold(states, [_written(others[0])])] == [b"device-0002"]
    _, null = _fold(states, [_written(others[1])])
    assert (null.topic, null.key, null.value) == ("state.device.v1", b"device-0001", None)
    assert (states.snapshots.keys(), states.burials) == ({"device-0002"}, [])


def test_each_that_is_deleted_is_forgotten_in_its_own_time() -> None:
    states, hour_ms = Kept(), 3600 * 1000
    begin_ms = event_record(0).arrived_ms
    ended_ms = {f"device-{n:04}": begin_ms + n * hour_ms // 10 for n in range(10)}
    for n, (entity_id, at_ms) in enumerate(ended_ms.items()):
        first = event_record(0, entity_id=entity_id)._replace(arrived_ms=begin_ms)
        for record in (first, _retired(n, at_ms)._replace(entity_id=entity_id)):
            _fold(states, [_written(record)])
    forgotten: list[str] = []
    for n in range(12, 25):
        now_ms = begin_ms + n * hour_ms // 10
        beat = event_record(n, entity_id="other")._replace(arrived_ms=now_ms)
        _, *nulls = _fold(states, [_written(beat)])
        assert [row.value for row in nulls] == [None] * len(nulls)
        gone = [(row.key or b"").decode() for row in nulls]
        assert all(ended_ms[entity_id] + hour_ms <= now_ms for entity_id in gone)
        forgotten += gone
    assert forgotten == list(ended_ms)
    assert (states.snapshots.keys(), states.burials) == ({"other"}, [])


def test_an_entity_that_lives_again_is_not_forgotten() -> None:
    states, first = Kept(), event_record(0)
    gone = _retired(0, first.arrived_ms + 1)
    again = event_record(1)._replace(arrived_ms=gone.arrived_ms + 1)
    much_later = event_record(2)._replace(arrived_ms=gone.arrived_ms + 7200 * 1000)
    for record in (first, gone, again, much_later):
        (row,) = _fold(states, [_written(record)])
    assert orjson.loads(row.value)["count"] == 2


def _seeded(
    *parts: list[tuple[int, bytes, bytes | None]],
    made_anew: str = "",
    starts: dict[str, int] | None = None,
) -> States:
    """After a start with these records of the state topic: offset, key, value."""
    states = Kept()
    anew = frozenset(filter(None, [made_anew]))
    processor = BucketFold("shared.flow:FLOW", 64, 3600, anew, starts)
    processor.init(States(Handle(states)))  # type: ignore[arg-type]
    for part in parts:
        records = [("state.device.v1", 0, offset, key, value) for offset, key, value in part]
        for row in packed_rows({BUCKET: records}).to_pylist():
            processor.handleInitialState(BUCKET, Row(**row), None)
    return states


def _published(*records: EventRecord) -> bytes:
    *_, last = [row for row in _fold(Kept(), [_written(record) for record in records])
                if row.topic == "state.device.v1"]  # fmt: skip
    return bytes(last.value)


def test_a_start_from_snapshots_takes_the_last_of_each_however_its_parts_come() -> None:
    key = b"device-0001"
    old, new = (_published(*map(event_record, range(count))) for count in (1, 2))
    for parts in ([[(1, key, old), (5, key, new)]], [[(5, key, new)], [(1, key, old)]]):
        states = _seeded(*parts)
        assert states["device", "device-0001"] == (new,)
        (row,) = _fold(states, [_written(event_record(i)) for i in range(3)])
        assert orjson.loads(row.value)["count"] == 3


def test_a_start_from_snapshots_leaves_out_what_is_gone_or_no_snapshot() -> None:
    key, new = b"device-0001", _published(event_record(0))
    assert _seeded([(1, key, new)], [(2, key, None)]) == {}
    assert _seeded([(1, key, b"no snapshot"), (2, b"device-0002", b"{}")]) == {}


def test_a_start_from_snapshots_of_another_fold_shows_nothing_until_it_has_caught_up() -> None:
    records = [event_record(i, value=90.0) for i in range(4)]
    old = orjson.loads(_published(*records[:3]))
    old["_meta"]["fold"] = "another"
    states = _seeded([(9, b"device-0001", orjson.dumps(old))])
    assert _fold(states, [_written(records[0]), _written(records[1])]) == []
    (row,) = _fold(states, [_written(records[2]), _written(records[3])])
    new = orjson.loads(row.value)
    assert (new["count"], new["_meta"]["version"]) == (4, 3 + 4)
    assert new["_meta"].keys().isdisjoint({"behind", "emissions"})


def test_an_alarm_that_is_newer_than_the_old_snapshot_is_emitted_by_the_new_fold() -> None:
    records = [event_record(0, value=30.0), event_record(1, value=90.0)]
    old = orjson.loads(_published(records[0]))
    old["_meta"]["fold"] = "another"
    states = _seeded([(9, b"device-0001", orjson.dumps(old))])
    row, alarm = _fold(states, [_written(record) for record in records])
    assert alarm.topic == "event.alarm_raised.v1"
    assert len(orjson.loads(row.value)["_meta"]["emissions"]) == 1


def test_a_deleted_entity_that_a_start_took_over_is_forgotten_in_its_time() -> None:
    gone = _retired(0, event_record(0).arrived_ms + 1)
    states = _seeded([(1, b"device-0001", _published(event_record(0), gone))])
    other = event_record(1, entity_id="device-0002")
    much_later = other._replace(arrived_ms=other.arrived_ms + 7200 * 1000)
    _, null = _fold(states, [_written(much_later)])
    assert (null.key, null.value) == (b"device-0001", None)


def test_places_in_a_log_that_was_made_anew_are_forgotten_and_ids_are_not() -> None:
    known = [event_record(place) for place in (5, 6)]
    part = [(9, b"device-0001", _published(*known))]
    moved = [record._replace(position=Position("event.reading.v1", 0, place))
             for place, record in enumerate([known[1], event_record(7)])]  # fmt: skip
    assert _fold(_seeded(part), [_written(record) for record in moved]) == []
    states = _seeded(part, made_anew="event.reading.v1/0")
    (row,) = _fold(states, [_written(record) for record in moved])
    assert orjson.loads(row.value)["count"] == 3


def _correction(offset: int, of: int, value: float) -> EventRecord:
    record = event_record(of, value=value)
    return record._replace(position=Position("event.reading.v1", 0, offset), revision=1, attempt=1)


def _answered(request: Row, log: list[EventRecord]) -> tuple[bytes, bytes, EventRecord]:
    asked = refolding.read_request(request.value)
    (device,) = FLOW.entities
    applier = Applier(device, 64, {row.name: row for row in FLOW.event_types})
    answer = refolding.refold(applier, asked, log)
    value = refolding.answer_value(answer, entity_fingerprint(device))
    place = event_record(0)._replace(position=Position("refolded.fold.v1", 0, 0))
    return asked.id.encode(), value, place


def test_a_correction_is_taken_in_by_a_refold_and_what_comes_meanwhile_waits_alone() -> None:
    states = Kept()
    log = [event_record(0, value=30.0), event_record(1, value=90.0), _correction(2, 1, 40.0)]
    other = event_record(0, entity_id="device-0002")._replace(
        position=Position("event.reading.v1", 1, 0)
    )
    rows = _fold(states, [_written(record) for record in log])
    (request,) = [row for row in rows if row.topic == "refold.fold.v1"]
    (state,) = [row for row in rows if row.topic == "state.device.v1"]
    assert (orjson.loads(state.value)["value"], request.key) == (90.0, b"device:device-0001")

    (others,) = _fold(states, [_written(event_record(3, value=50.0)), _written(other)])
    assert others.key == b"device-0002"
    assert states.held == ["device-0001"]

    answer = _answered(request, log)
    state, done = _fold(states, [answer])
    assert (done.topic, done.key, done.value) == ("refold.fold.v1", request.key, None)
    found = orjson.loads(state.value)
    assert (found["count"], found["value"], found["max"]) == (3, 50.0, 50.0)
    assert found["_meta"]["version"] == 4
    assert "asked" not in found["_meta"]
    assert states.held == []
    assert _fold(states, [answer], [_written(log[2])]) == []


def test_what_cannot_be_held_any_more_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refolding, "HELD_MAX", 3)
    states = Kept()
    log = [event_record(0), _correction(1, 0, 40.0), *map(event_record, range(2, 6))]
    rows = _fold(states, [_written(record) for record in log])
    (request,) = [row for row in rows if row.topic == "refold.fold.v1"]
    assert refolding.read_request(request.value).positions == {"event.reading.v1/0": 5}
    assert states.held == []
    assert _fold(states, [_written(log[-1])]) == []
    state, _ = _fold(states, [_answered(request, log)])
    assert orjson.loads(state.value)["count"] == 5


def test_a_refold_of_another_fold_and_what_is_none_change_nothing() -> None:
    states = Kept()
    log = [event_record(0), _correction(1, 0, 40.0)]
    request = next(
        row for row in _fold(states, [*map(_written, log)]) if row.topic == "refold.fold.v1"
    )
    key, value, place = _answered(request, log)
    (device,) = FLOW.entities
    other = value.replace(entity_fingerprint(device).encode(), b"another")
    before = dict(states)
    assert _fold(states, [(key, other, place), (key, b"{", place), (key, b"", place)]) == []
    assert states == before


def test_what_was_held_in_a_lost_checkpoint_comes_with_the_refold_that_is_asked_for_anew() -> None:
    log = [event_record(0), _correction(1, 0, 40.0), event_record(2), event_record(3)]
    published = [(0, b"device-0001", _published(*log))]
    states = _seeded(published, starts={"event.reading.v1/0": 4})
    (stored,) = states["device", "device-0001"]
    now = snapshot.decode(stored)
    assert now.positions == {"event.reading.v1/0": 3}
    request = Row(value=refolding.request_value(refolding.request_of("device", "device-0001", now)))
    too_old = Row(value=request.value.replace(b":3}", b":1}"))
    assert _fold(states, [_answered(too_old, log[:2])]) == []
    state, _ = _fold(states, [_answered(request, log)])
    assert orjson.loads(state.value)["count"] == 3
