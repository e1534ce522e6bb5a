"""What the views of `views_flow.py` say, worked out in plain Python from the log alone."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from tests.kafka_log import Record
from tests.stream_jobs.views_flow import LATE_AFTER_S

_WINDOW_MS, _GAP_MS, _BEFORE_MS = 10_000, 3_000, 5_000
Rows = dict[tuple[Any, ...], dict[str, Any]]


class Seen(NamedTuple):
    id: str
    entity_id: str
    time_ms: int
    data: dict[str, Any]


def events_of(records: Iterable[Record], kind: str = "reading") -> list[Seen]:
    """Those that count: each once, if a copy of it was not late."""
    found: dict[str, Seen] = {}
    for record in records:
        event = _event(record, kind)
        if event is None or event.get("revision"):
            continue
        time_ms = min(event["time_ms"], event["arrived_ms"], record.timestamp_ms)
        if record.timestamp_ms - time_ms <= LATE_AFTER_S * 1000:
            seen = Seen(event["id"], event["entity_id"], time_ms, event["data"])
            found.setdefault(seen.id, seen)
    return [*found.values()]


def late_in(records: Iterable[Record]) -> int:
    late = 0
    for record in records:
        event = _event(record, "reading")
        if event:
            time_ms = min(event["time_ms"], event["arrived_ms"], record.timestamp_ms)
            late += record.timestamp_ms - time_ms > LATE_AFTER_S * 1000
    return late


def _event(record: Record, kind: str) -> dict[str, Any] | None:
    try:
        event = orjson.loads(record.value or b"")
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("type") != kind or event["id"] == "odd":
        return None
    return event if event["entity_id"].encode() == record.key else None


def by_area(events: list[Seen], every_ms: int = _WINDOW_MS) -> Rows:
    rows: Rows = {}
    for event in events:
        last = event.time_ms // every_ms * every_ms
        for start in range(last, event.time_ms - _WINDOW_MS, -every_ms):
            key = event.data["area"], start, start + _WINDOW_MS
            value = event.data["value"]
            row = rows.setdefault(key, {"readings": 0, "total": 0.0, "highest": value})
            row["readings"] += 1
            row["total"] += value
            row["highest"] = max(row["highest"], value)
    return rows


def by_area_overlapping(events: list[Seen]) -> Rows:
    return by_area(events, every_ms=_WINDOW_MS // 2)


def sessions(events: list[Seen]) -> Rows:
    return {
        (device, its[0].time_ms, its[-1].time_ms + _GAP_MS): {
            "readings": len(its),
            "highest": max(event.data["value"] for event in its),
        }
        for device in {event.entity_id for event in events}
        for its in _runs(sorted((e for e in events if e.entity_id == device), key=_time))
    }


def _runs(events: list[Seen]) -> Iterator[list[Seen]]:
    run: list[Seen] = []
    for event in events:
        if run and event.time_ms > run[-1].time_ms + _GAP_MS:
            yield run
            run = []
        run.append(event)
    if run:
        yield run


def hot(events: list[Seen]) -> Rows:
    return {
        (event.id,): {
            "entity_id": event.entity_id,
            "tenant": _tenant(event),
            "time": event.time_ms,
            "value": event.data["value"],
        }
        for event in events
        if event.data["value"] > 90
    }


def totals(events: list[Seen]) -> Rows:
    rows: Rows = {}
    for event in sorted(events, key=lambda its: (its.time_ms, its.id)):
        row = rows.setdefault((_tenant(event), event.entity_id), {"readings": 0})
        row["readings"] += 1
        row["latest"] = event.data["value"]
    return rows


def changed_before(readings: list[Seen], changes: list[Seen]) -> Rows:
    return {
        (reading.id, change.id): {
            "value": reading.data["value"],
            "status": change.data["status"],
        }
        for reading, its in _with_changes(readings, changes)
        for change in its
    }


def last_status(readings: list[Seen], changes: list[Seen]) -> Rows:
    return {
        (reading.id, reading.time_ms): {
            "changes": len(its),
            "status": its[-1].data["status"] if its else None,
        }
        for reading, its in _with_changes(readings, changes)
    }


def _with_changes(readings: list[Seen], changes: list[Seen]) -> Iterator[tuple[Seen, list[Seen]]]:
    """Those that came to its device in the time before it, the latest last."""
    in_order = sorted(changes, key=lambda its: (its.time_ms, its.id))
    for reading in readings:
        if reading.data["value"] > 80:
            yield (
                reading,
                [
                    change
                    for change in in_order
                    if change.entity_id == reading.entity_id
                    and 0 <= reading.time_ms - change.time_ms <= _BEFORE_MS
                ],
            )


def _tenant(event: Seen) -> str | None:
    return event.entity_id.partition("/")[0] if "/" in event.entity_id else None


def _time(event: Seen) -> int:
    return event.time_ms


OF_VIEW = {
    "by_area": by_area,
    "by_area_closed": by_area_overlapping,
    "sessions": sessions,
    "hot": hot,
    "totals": totals,
}
OF_JOIN = {"changed_before": changed_before, "last_status": last_status}
