"""What fold and persist do, of one device at a time, and what a gateway's view then has."""

from dataclasses import replace
from typing import Any

import orjson

from clients.kafka.records import Record
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore
from shared.events.envelope import EventRecord, Position, event_headers, event_value
from shared.flow import FLOW as SAMPLE
from shared.folding.applier import Applier
from shared.folding.snapshot import Snapshot, encode
from shared.timestamps import now_ms
from stream_jobs.persist.rows import RowMaker
from stream_jobs.persist.writer import EventStore

TOPIC, BEGAN_MS = "state.device.v1", 1_700_000_000_000
FLOW = replace(SAMPLE, aggregates=tuple(replace(row, history=True) for row in SAMPLE.aggregates))


class World:
    """Of one device at a time, what fold and persist do, and the gateway's view."""

    def __init__(self, postgres_url: str, view: ViewStore) -> None:
        self.rows, self.view = EventStore(postgres_url), view
        self._maker = RowMaker.of(FLOW)
        types = {row.name: row for row in FLOW.event_types}
        self._applier = Applier(FLOW.entities[0], 64, types)
        self._states: dict[str, Snapshot] = {}
        self._offset = 0
        for topic in (TOPIC, "state.area.v1"):
            view.begin_topic(topic, "an id")
        self.caught_up()

    def caught_up(self) -> None:
        self.view.caught_up([TOPIC, "state.area.v1"], now_ms())

    def fold(self, *events: EventRecord, stored: bool = True) -> dict[str, Any]:
        """Of one device, in one batch."""
        device = events[0].entity_id
        for event in events:
            record = Record(event.position, device.encode(), event_value(event))
            self.rows.write([self._maker.make(record._replace(headers=event_headers(event)))])
        now = self._applier.apply(device, self._states.get(device), events).snapshot
        assert now is not None
        self._states[device] = now
        return self.publish(TOPIC, device, encode(now, "a fold"), stored)

    def publish(self, topic: str, key: str, value: bytes, stored: bool = True) -> dict[str, Any]:
        self._offset += 1
        at_ms = BEGAN_MS + self._offset * 1_000
        place = Position(topic, 0, self._offset)
        if stored:
            self.rows.write([self._maker.make(Record(place, key.encode(), value, [], at_ms))])
        changes = Changes()
        meta = orjson.loads(value)["_meta"]
        row = Row(topic, key.encode(), value, meta["version"], at_ms, 0, self._offset)
        changes.put(row)
        self.view.apply(changes)
        self.caught_up()
        return {"at_ms": at_ms, "version": meta["version"]}
