"""Rows as the jobs write them, in the gateway's copy, and readers of streams of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore
from shared.timestamps import now_ms, to_rfc3339
from shared.topic_names import JOB_STATUS_TOPIC
from tests.gateway.event_streams.support import Stream, frames_of

BY_AREA, HOT, TOTALS = "view.by_area.v1", "view.hot.v1", "view.totals.v1"
MINUTE_MS = 60_000
BEGIN_MS = 1_800_000_000_000


class Rows:
    def __init__(self, store: ViewStore, partitions: int = 1) -> None:
        self._store = store
        self._partitions = partitions
        self._offset = 0
        for topic in (BY_AREA, HOT, TOTALS, JOB_STATUS_TOPIC):
            self.begin(topic, "an id")

    def begin(self, topic: str, topic_id: str) -> None:
        self._store.begin_topic(topic, topic_id)
        changes = Changes()
        changes.positions = {(topic, number): 0 for number in range(self._partitions)}
        self._store.apply(changes)
        self._store.caught_up([topic], now_ms())

    def put(self, topic: str, key: dict[str, Any], version: int = 1, **fields: Any) -> None:
        value = orjson.dumps({**key, **fields, "_meta": {"version": version}})
        as_json = orjson.dumps(key)
        partition = sum(as_json) % self._partitions
        self._apply(Row(topic, as_json, value, version, 0, partition, self._offset))

    def window(self, area: str, number: int, topic: str = BY_AREA, **fields: Any) -> int:
        """When it begins."""
        start_ms = BEGIN_MS + number * MINUTE_MS
        window = {"start": to_rfc3339(start_ms), "end": to_rfc3339(start_ms + MINUTE_MS)}
        self.put(topic, {"area": area, "window": window}, **fields)
        return start_ms

    def said(self, view: str, **numbers: int) -> None:
        value = {"job": f"view_{view}", "state": "running", "at_ms": now_ms(), "view": numbers}
        key = f"view_{view}".encode()
        self._apply(Row(JOB_STATUS_TOPIC, key, orjson.dumps(value), None, 0, 0, self._offset))

    def caught_up(self, topic: str) -> None:
        self._store.caught_up([topic], now_ms() + 1)

    def _apply(self, row: Row) -> None:
        self._offset += 1
        changes = Changes()
        changes.put(row)
        changes.positions[row.topic, row.partition] = self._offset
        self._store.apply(changes)


@contextmanager
def changes_of(
    url: str, path: str, last_id: str = "", headers: dict[str, str] | None = None
) -> Iterator[Stream]:
    asked = {"accept": "text/event-stream", **(headers or {})}
    asked |= {"last-event-id": last_id} if last_id else {}
    with httpx.stream("GET", f"{url}{path}", headers=asked, timeout=60) as answer:
        if answer.status_code != 200:
            answer.read()
        yield Stream(answer, frames_of(answer.iter_lines()))
