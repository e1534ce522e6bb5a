"""What one payload has come to, as far as it is known. Pure.

Each level has those before it: what is stored is folded, too, and what is folded is enriched.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from gateway.effects.record_effects import Ended, Fact, Made, Told, Waits
from gateway.effects.wait_request import ACCEPTED, ENRICHED, FOLDED, LEVELS, STORED
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


class _Need(NamedTuple):
    """What a state is to have."""

    entity: Entity
    places: dict[str, int]  # log -> offset of the last event there
    ids: set[str]


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
        self.places: set[str] = set()  # of these, and where they were written again
        self._count = 0
        self._unfolded: dict[Key, _Need] = {}
        self._stored: set[str] = set()

    @property
    def events(self) -> list[Made]:
        return [self._parts[part] for part in sorted(self._parts)]

    @property
    def is_enriched(self) -> bool:
        return 0 < self._count <= len(self._parts)

    def accepted(self, origin: str) -> None:
        self.origin = origin
        for told in self._early:
            self.hear(told)

    def hear(self, told: Told) -> None:
        if self.origin is None:  # the log may be read before its answer is
            self._early.append(told)
        elif told.origin == self.origin or told.origin in self.places:
            self._take(told.fact)

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, Made):
            self._take_event(fact)
        elif isinstance(fact, Waits):
            self.waits = fact
        elif self.ended is None:
            self.ended = fact

    def _take_event(self, made: Made) -> None:
        self.waits = None
        self.places.add(str(made.place))
        if made.part in self._parts:
            return  # it was written twice: it is in a state from the first place on
        self._parts[made.part] = made
        self._count = made.parts
        if self.is_enriched:
            for one in self._parts.values():
                self._note_readers(one)

    # folded

    def _note_readers(self, made: Made) -> None:
        log = _log_of(made)
        for entity in self._readers.get(made.type, ()):
            key = entity.name, made.entity_id
            need = self._unfolded.setdefault(key, _Need(entity, {}, set()))
            need.places[log] = max(made.place.offset, need.places.get(log, -1))
            need.ids.add(made.id)

    def unfolded(self) -> list[tuple[Entity, str]]:
        """Which states are to be looked at."""
        return [(need.entity, entity_id) for (_, entity_id), need in self._unfolded.items()]

    def look(self, entity: Entity, entity_id: str, snapshot: bytes) -> bool:
        """Whether this state has all events of the payload that it is to have: by its own note of
        how far its logs are in it. While it is folded anew, that note is ahead of what is in it."""
        key = entity.name, entity_id
        need = self._unfolded.get(key)
        if need is None:  # seen meanwhile
            return True
        meta: dict[str, Any] = orjson.loads(snapshot)[META]
        positions = meta["positions"]
        if meta.get("asked") or any(positions.get(log, -1) < o for log, o in need.places.items()):
            return False
        if self.ended is None and not need.ids.isdisjoint(meta.get("parked", ())):
            where = "its letter in dlq.fold.v1 says why"
            self.ended = Ended("parked", "fold", "fold_failed", where)
        del self._unfolded[key]
        self.states[key] = Seen(meta["version"], bool(meta.get("deleted")))
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
        if not self.is_enriched:
            return ACCEPTED
        if self._is_ended_by("fold") or self._unfolded:
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


def _log_of(made: Made) -> str:
    return f"{made.place.topic}/{made.place.partition}"
