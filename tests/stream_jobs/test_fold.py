"""The handler alone, over a state of its own; Spark's part is in test_race."""

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Row

from shared.envelope import EventRecord, Position, event_value
from shared.flow import FLOW
from stream_jobs.event_rows import EventRow, LogRecord, RowMaker
from stream_jobs.fold import BucketFold
from stream_jobs.packing import pack_by_bucket
from tests.builders import event_record

BUCKET = 7


class MapState(dict[Any, Any]):
    """As the map state of Spark answers."""

    def getValue(self, key: tuple[str, str]) -> tuple[bytes] | None:  # noqa: N802
        return self.get(key)

    def updateValue(self, key: tuple[str, str], value: tuple[bytes]) -> None:  # noqa: N802
        self[key] = value

    def removeKey(self, key: tuple[str, str]) -> None:  # noqa: N802
        self.pop(key, None)

    def iterator(self) -> Iterator[Any]:
        return iter(self.items())


class States(MapState):
    def __init__(self) -> None:
        self.deleted = MapState()


class Handle:
    def __init__(self, states: States) -> None:
        self._states = {"snapshots": states, "deleted": states.deleted}

    def getMapState(self, name: str, *_schema: str) -> dict[Any, Any]:  # noqa: N802
        return self._states[name]


def _fold(states: States, *batches: list[tuple[bytes | None, bytes, EventRecord]]) -> list[Row]:
    """Each batch is a list of (key, value, where it stands)."""
    packed = []
    for batch in batches:
        rows = [
            {
                "bucket": BUCKET,
                "topic": place.position.topic,
                "partition": place.position.partition,
                "offset": place.position.offset,
                "key": key,
                "value": value,
            }
            for key, value, place in batch
        ]
        frames = pack_by_bucket(iter([pa.RecordBatch.from_pylist(rows, _COLUMNS)]))
        packed += [Row(**row) for frame in frames for row in frame.to_pylist()]
    processor = BucketFold("shared.flow:FLOW", ring_size=64, deleted_kept_s=3600)
    processor.init(Handle(states))  # type: ignore[arg-type]
    return list(processor.handleInputRows(BUCKET, iter(packed), None))


_COLUMNS = pa.schema(
    [
        ("bucket", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def _written(record: EventRecord) -> tuple[bytes, bytes, EventRecord]:
    return record.entity_id.encode(), event_value(record), record


def test_records_are_folded_in_log_order_however_they_come() -> None:
    records = [event_record(i, value=float(value)) for i, value in enumerate((90, 70, 10, 85))]
    states = States()
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
    assert states["device", "device-0001"] == (row.value,)


def test_the_next_batch_goes_on_from_the_state() -> None:
    states = States()
    _fold(states, [_written(event_record(0))])
    (row,) = _fold(states, [_written(event_record(0)), _written(event_record(1))])
    assert orjson.loads(row.value)["count"] == 2


def test_what_is_no_event_of_its_topic_and_key_is_parked_and_the_rest_folded() -> None:
    good = event_record(0)
    rows = _fold(
        States(),
        [
            _written(good),
            (b"device-0002", event_value(event_record(1)), event_record(1)),
            (None, b"no event", event_record(2)),
            _written(event_record(3, type="other")),
        ],
    )
    parked = {
        row.value: next(h.value for h in row.headers if h.key == "ce_reason")
        for row in rows
        if row.topic == "dlq.fold.v1"
    }
    assert parked == {
        event_value(event_record(1)): b"wrong_key",
        b"no event": b"no_event",
        event_value(event_record(3, type="other")): b"wrong_type",
    }
    (state,) = [orjson.loads(row.value) for row in rows if row.topic == "state.device.v1"]
    assert state["count"] == 1


def test_an_event_that_the_fold_refuses_is_parked_as_it_stood() -> None:
    bad = event_record(0)._replace(data={"no": "value"})
    dead, state = _fold(States(), [_written(bad)])
    assert (dead.topic, dead.value) == ("dlq.fold.v1", event_value(bad))
    assert orjson.loads(state.value)["_meta"]["parked"] == [bad.id]


def test_what_the_ring_knows_is_told_by_its_place_in_the_ingest_log() -> None:
    again = event_record(5, id="event-1")
    told, state = _fold(States(), [_written(r) for r in (event_record(1), again, again)])
    assert told.topic == "repeat.fold.v1"
    assert orjson.loads(told.value) == {"ingest.telemetry.v1/0": [5]}
    assert orjson.loads(state.value)["count"] == 1


def test_what_a_change_emits_stands_in_its_topic_with_the_usual_envelope() -> None:
    _, alarm = _fold(States(), [_written(event_record(3, value=90.0))])
    headers = [(header.key, header.value) for header in alarm.headers]
    record = LogRecord(Position(alarm.topic, 0, 0), alarm.key, alarm.value, headers)
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
    states, first = States(), event_record(0)
    hour_ms = 3600 * 1000
    gone = _retired(0, first.arrived_ms + 1)
    *_, last = _fold(states, [_written(first), _written(gone)])
    assert orjson.loads(last.value)["_meta"]["deleted"] is True
    others = [
        event_record(1 + after_ms, entity_id="device-0002")._replace(
            arrived_ms=gone.arrived_ms + after_ms
        )
        for after_ms in (hour_ms - 1, hour_ms)
    ]
    assert [row.key for row in _fold(states, [_written(others[0])])] == [b"device-0002"]
    _, null = _fold(states, [_written(others[1])])
    assert (null.topic, null.key, null.value) == ("state.device.v1", b"device-0001", None)
    assert states.keys() == {("device", "device-0002")}


def test_an_entity_that_lives_again_is_not_forgotten() -> None:
    states, first = States(), event_record(0)
    gone = _retired(0, first.arrived_ms + 1)
    again = event_record(1)._replace(arrived_ms=gone.arrived_ms + 1)
    much_later = event_record(2)._replace(arrived_ms=gone.arrived_ms + 7200 * 1000)
    for record in (first, gone, again, much_later):
        (row,) = _fold(states, [_written(record)])
    assert orjson.loads(row.value)["count"] == 2
