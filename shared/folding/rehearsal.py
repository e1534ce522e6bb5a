"""A new fold beside the one that is live: which entities would have another state. Pure.

Each is folded up to where its live snapshot stands and no further, so what differs is the fold's
doing, whatever comes in meanwhile.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from shared.events.envelope import EventRecord
from shared.folding.applier import Applier
from shared.folding.refolding import Request, refold
from shared.folding.snapshot import Snapshot
from shared.model import Fields


class Change(NamedTuple):
    id: str
    fields: dict[str, tuple[Any, Any]]  # live and new, of those that differ


class Rehearsal:
    def __init__(self, applier: Applier, topics: Collection[str]) -> None:
        """`topics`: those that the entity reads."""
        self._applier = applier
        self._topics = topics
        self._live: dict[str, Snapshot] = {}
        self._new: dict[str, Snapshot] = {}
        self._folds: dict[str, str] = {}
        self._whole: dict[str, list[EventRecord]] = {}
        self.events = 0
        self.parked = 0  # events that the new fold does not take

    def live(self, entity_id: str, snapshot: Snapshot | None, fold: str = "") -> None:
        """The last one of an entity counts; None: it is gone."""
        if snapshot is None:
            self._live.pop(entity_id, None)
            self._folds.pop(entity_id, None)
        else:
            self._live[entity_id] = snapshot
            self._folds[entity_id] = fold

    def event(self, record: EventRecord) -> None:
        if record.entity_id in self._whole or not self._is_live(record):
            return
        before = self._new.get(record.entity_id)
        applied = self._applier.apply(record.entity_id, before, [record])
        self.events += 1
        self.parked += len(applied.parked)
        if applied.snapshot is not None:
            self._new[record.entity_id] = applied.snapshot
        if applied.asks:
            self._whole[record.entity_id] = []

    @property
    def asks(self) -> bool:
        """For all events once more: some can only be folded in with the whole log of theirs."""
        return bool(self._whole)

    def once_more(self, record: EventRecord) -> None:
        if record.entity_id in self._whole and self._is_live(record):
            self._whole[record.entity_id].append(record)

    def _is_live(self, record: EventRecord) -> bool:
        live, place = self._live.get(record.entity_id), record.position
        if live is None or place.topic not in self._topics:
            return False
        return place.offset <= live.positions.get(f"{place.topic}/{place.partition}", -1)

    def _rehearsed(self, entity_id: str) -> Snapshot | None:
        if entity_id not in self._whole:
            return self._new.get(entity_id)
        request = Request(self._applier.entity.name, entity_id, {}, {})
        return refold(self._applier, request, self._whole[entity_id]).snapshot

    @property
    def folds(self) -> Counter[str]:
        """Live snapshots by the fingerprint of their fold."""
        return Counter(self._folds.values())

    @property
    def entities(self) -> int:
        return len(self._live)

    def changes(self) -> Iterator[Change]:
        for entity_id, live in sorted(self._live.items()):
            new = self._rehearsed(entity_id)
            state = new.state if new else self._applier.entity.initial(entity_id)
            deleted = new.deleted if new else False
            fields = _differences(live.state, state)
            if live.deleted != deleted:
                fields["deleted"] = (live.deleted, deleted)
            if fields:
                yield Change(entity_id, fields)


def _differences(live: Fields, new: Fields) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys((*live, *new))
    return {
        name: (live.get(name), new.get(name)) for name in names if live.get(name) != new.get(name)
    }
