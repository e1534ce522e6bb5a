"""What becomes of a view's records before Spark has them."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from shared.flow import FLOW
from stream_jobs.views import event_table
from stream_jobs.views.event_table import EventsOf

EVENT = {
    "id": "e-1",
    "type": "reading",
    "entity_id": "d",
    "time_ms": 5,
    "arrived_ms": 6,
    "origin": ["ingest.telemetry.v1", 0, 1],
    "data": {"temperature": 7},
}


class Message:
    def __init__(self, value: bytes | None, key: bytes = b"d") -> None:
        self._value, self._key = value, key

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "event.reading.v1"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 3

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_123


@pytest.fixture(autouse=True)
def _forget() -> None:
    event_table._lifting_reader.cache_clear()
    event_table._event_columns.cache_clear()


def lifted(data: dict[str, Any]) -> dict[str, Any]:
    return {"value": data["temperature"]}


def rows(monkeypatch: pytest.MonkeyPatch, *values: bytes | None, shapes: int = 1) -> list[Any]:
    reading = replace(FLOW.event_type("reading"), upcasters=(lifted,) * (shapes - 1))
    others = tuple(row for row in FLOW.event_types if row.name != "reading")
    flow = replace(FLOW, event_types=(reading, *others))
    monkeypatch.setattr(event_table, "load_flow", lambda _: flow)
    events = EventsOf.its("view_hot", "a flow", reading)
    batch = events.rows([Message(value) for value in values])  # type: ignore[misc]
    assert batch.schema == events.schema == events.cut(5).schema
    return batch.to_pylist()


def test_a_record_is_a_row_whatever_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, odd, none) = rows(monkeypatch, orjson.dumps(EVENT), b"not even JSON", None)
    assert (one["id"], one["time_ms"], one["has_data"]) == ("e-1", 5, True)
    for row in one, odd, none:
        assert row["key"] == b"d"
        assert row["appended"].timestamp() == 1_700_000_000.123
        assert row["is_cut"] is None
    assert odd == none
    assert (odd["id"], odd["has_data"]) == (None, False)


def test_events_of_an_old_shape_come_in_todays(monkeypatch: pytest.MonkeyPatch) -> None:
    today = {**EVENT, "shape": 2, "data": {"value": 8}}
    told = rows(monkeypatch, *map(orjson.dumps, (EVENT, today)), b"no event", shapes=2)
    assert [row["data_value"] for row in told] == [7, 8, None]
    assert [row["shape"] for row in told] == [2, 2, None]
    assert told[2]["id"] is None
