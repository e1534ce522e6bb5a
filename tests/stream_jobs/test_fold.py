"""The handler alone, over a state of its own; Spark's part is in test_race."""

from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Row

from shared.envelope import EventRecord, event_value
from stream_jobs.fold import BucketFold
from stream_jobs.packing import pack_by_bucket
from tests.builders import event_record

BUCKET = 7


class States(dict[Any, Any]):
    """As the map state of Spark answers."""

    def getValue(self, key: tuple[str, str]) -> tuple[bytes] | None:  # noqa: N802
        return self.get(key)

    def updateValue(self, key: tuple[str, str], value: tuple[bytes]) -> None:  # noqa: N802
        self[key] = value


class Handle:
    def __init__(self, states: States) -> None:
        self._states = states

    def getMapState(self, *_schema: str) -> States:  # noqa: N802
        return self._states


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
    processor = BucketFold("shared.flow:FLOW", ring_size=64)
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
    (row,) = _fold(states, [_written(records[i]) for i in (3, 1)], [_written(records[2])],
                   [_written(records[0])])  # fmt: skip
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
