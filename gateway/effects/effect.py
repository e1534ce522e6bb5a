"""What one payload has come to, as far as it is known. Pure.

Each level has those before it: what is stored is folded, too, and what is folded is enriched.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from gateway.effects.asked import ACCEPTED, ENRICHED, FOLDED, LEVELS, STORED
from gateway.effects.told import Ended, Fact, Made, Told, Waits
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.model import Entity

Key = tuple[str, str]  # entity, id


class Seen(NamedTuple):
    """A state that has the event."""

    version: int
    deleted: bool


class StoredRow(NamedTuple):
    event_id: str
    origin: str
    payload_sha256: str | None


def folded_by(flow: Flow) -> Mapping[str, Sequence[Entity]]:
    """Event type -> entities."""
    return {
        row.name: [entity for entity in flow.entities if row.name in entity.reads]
        for row in flow.event_types
    }


class Effect:
    def __init__(self, payload_sha256: str, readers: Mapping[str, Sequence[Entity]]) -> None:
        self.origin: str | None = None  # not known before Kafka has it
        self.waits: Waits | None = None
        self.ended: Ended | None = None
        self.states: dict[Key, Seen] = {}
        self._sha256 = payload_sha256
        self._readers = readers
        self._early: list[Told] = []
        self._parts: dict[int, Made] = {}
        self._count = 0
        self._stored: set[str] = set()

    @property
    def events(self) -> list[Made]:
        return [self._parts[part] for part in sorted(self._parts)]

    def accepted(self, origin: str) -> None:
        self.origin = origin
        for told in self._early:
            self.hear(told)

    def hear(self, told: Told) -> None:
        if self.origin is None:  # the log may be read before its answer is
            self._early.append(told)
        elif told.origin == self.origin or self._is_of_event(told):
            self._take(told.fact)

    def _is_of_event(self, told: Told) -> bool:
        return any(str(made.place) == told.origin for made in self._parts.values())

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, Made):
            # one that was written twice is the same event, and its first place is looked at first
            self._parts.setdefault(fact.part, fact)
            self._count = fact.parts
            self.waits = None
        elif isinstance(fact, Waits):
            self.waits = fact
        elif self.ended is None:
            self.ended = fact

    # folded

    def unfolded(self) -> Iterator[tuple[Entity, Made]]:
        """Which states are to be looked at, each for an event."""
        for made in self.events:
            for entity in self._readers.get(made.type, ()):
                if (entity.name, made.entity_id) not in self.states:
                    yield entity, made

    def look(self, entity: Entity, entity_id: str, snapshot: bytes) -> bool:
        """Whether this state has all events of the payload that it is to have."""
        meta: dict[str, Any] = orjson.loads(snapshot)[META]
        its = [m for e, m in self.unfolded() if (e.name, m.entity_id) == (entity.name, entity_id)]
        if not all(_has(meta, made) for made in its):
            return False
        parked = meta.get("parked", ())
        if self.ended is None and any(made.id in parked for made in its):
            where = "its letter in dlq.fold.v1 says why"
            self.ended = Ended("parked", "fold", "fold_failed", where)
        self.states[entity.name, entity_id] = Seen(meta["version"], bool(meta.get("deleted")))
        return True

    # stored

    def take_rows(self, rows: Mapping[str, StoredRow]) -> None:
        for made in self.events:
            row = rows.get(made.id)
            if row is None:
                continue
            is_ours = row.origin == self.origin or row.payload_sha256 in (None, self._sha256)
            if is_ours:
                self._stored.add(made.id)
            elif self.ended is None:
                detail = f"its key was used for another body, at {row.origin}"
                self.ended = Ended("parked", "persist", "key_reuse", detail)

    # what is reached

    @property
    def reached(self) -> str:
        if not self._parts or len(self._parts) < self._count:
            return ACCEPTED
        if self._is_ended_by("fold") or any(True for _ in self.unfolded()):
            return ENRICHED
        return STORED if len(self._stored) == len(self._parts) else FOLDED

    def has(self, level: str) -> bool:
        return LEVELS.index(self.reached) >= LEVELS.index(level)

    def is_settled(self, level: str) -> bool:
        """It has that level, or will not have it."""
        if self.has(level) or self._is_ended_by("enrich"):
            return True
        ends_before = {FOLDED: ("fold",), STORED: ("fold", "persist")}.get(level, ())
        return any(map(self._is_ended_by, ends_before))

    def _is_ended_by(self, stage: str) -> bool:
        return self.ended is not None and self.ended.by == stage


def _has(meta: Mapping[str, Any], made: Made) -> bool:
    """The state's own note of how far its log is in it. While it is folded anew, that note is ahead
    of what is in it."""
    log = f"{made.place.topic}/{made.place.partition}"
    return meta["positions"].get(log, -1) >= made.place.offset and not meta.get("asked")
