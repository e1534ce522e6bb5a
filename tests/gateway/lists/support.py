"""States as fold writes them, in the gateway's copy with its index."""

from pathlib import Path
from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from shared.flow import FLOW
from shared.model import Entity, Event, Fields
from shared.tables.indexed_fields import IndexedStates, indexed_states
from shared.timestamps import now_ms

TOPIC = "state.device.v1"
INDEXED = indexed_states(FLOW.with_state)
DEVICES = INDEXED[0]


class Site(TypedDict):
    name: str
    floor: int | None


class Room(TypedDict):
    site: Site | None
    mode: Literal["day", "night"]
    is_open: NotRequired[bool | None]
    celsius: float | None
    id: str
    tags: list[str]
    anything: Any


def _fold(state: Fields, event: Event) -> Fields:
    del event
    return state


def room(*indexed: str, state: Any = Room) -> Entity:
    first: Room = {
        "site": None,
        "mode": "day",
        "celsius": None,
        "id": "",
        "tags": [],
        "anything": None,
    }
    return Entity("room", (), lambda _: {**first}, _fold, state=state, indexed=indexed)


class States:
    def __init__(
        self, folder: Path, indexed: tuple[IndexedStates, ...] = INDEXED, topic: str = TOPIC
    ) -> None:
        self.store = ViewStore(view_path(folder), indexed)
        self.topic = topic
        self._offset = 0

    def begin(self) -> None:
        for topic in ("state.device.v1", "state.area.v1"):
            self.store.begin_topic(topic, "an id")
        while self.store.index_more():
            pass
        self.caught_up()

    def caught_up(self) -> None:
        self.store.caught_up(["state.device.v1", "state.area.v1"], now_ms())

    def put(self, key: str, version: int = 1, deleted: bool = False, **fields: Any) -> None:
        self.put_all([(key, version, deleted, fields)])

    def put_all(self, states: list[tuple[str, int, bool, Fields]]) -> None:
        changes = Changes()
        for key, version, deleted, fields in states:
            self._offset += 1
            meta = {"version": version, "event_time_ms": 1_700_000_000_123, "fold": "abc"}
            value = {**fields, "_meta": meta | ({"deleted": True} if deleted else {})}
            changes.put(
                Row(self.topic, key.encode(), orjson.dumps(value), version, 5, 0, self._offset)
            )
        self.store.apply(changes)

    def remove(self, key: str) -> None:
        changes = Changes()
        changes.delete(self.topic, key.encode())
        self.store.apply(changes)
