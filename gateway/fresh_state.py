"""A state that is ahead of its snapshot: folded here from the events that fold has not done yet.

By the same applier as in the job. It is shown and nothing else: nobody keeps it.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.state_view import Found
from gateway.tail import TailRecord
from gateway.tail_follower import NotFresh, TailFollower
from shared import snapshot
from shared.applier import Applier, entity_fingerprint
from shared.envelope import EventRecord
from shared.event_reader import EventReader, NoEvent
from shared.model import Aggregate, Entity
from shared.topology import Flow

_WAITS_S = 1.5  # the first who asks, until the tail has been read
_LOOK_EVERY_S = 0.01


class Shown(NamedTuple):
    """A state, and where a fresh one was asked for, how many events it is ahead of its snapshot or
    why it is not the newest."""

    found: Found | None
    events: int | None = None
    why_not: str | None = None


class FreshStates:
    def __init__(self, flow: Flow, follower: TailFollower, ring_size: int) -> None:
        types = {row.name: row for row in flow.event_types}
        self._appliers = {row.name: Applier(row, ring_size, types) for row in flow.entities}
        self._events = EventReader.of(flow)
        self._follower = follower

    async def tail_of(self, entity: Entity | Aggregate, key: str) -> Sequence[TailRecord]:
        """Before the snapshot is looked up, so that no event is in neither. NotFresh says why it
        cannot be had."""
        if isinstance(entity, Aggregate):
            raise NotFresh(f"{entity.name} is added up from snapshots, not from events")
        give_up_s = time.monotonic() + _WAITS_S
        while True:
            records = self._follower.tail.of(key.encode())
            why_not = self._follower.ask()  # after that: it may have been given up meanwhile
            if why_not is None:
                return records
            if time.monotonic() >= give_up_s:
                raise NotFresh(why_not)
            await asyncio.sleep(_LOOK_EVERY_S)

    def state(
        self,
        entity: Entity | Aggregate,
        entity_id: str,
        found: Found | None,
        tail: Sequence[TailRecord],
    ) -> Shown:
        applier = self._appliers[entity.name]
        fold = entity_fingerprint(applier.entity)
        before = None
        if found is not None:
            before, folded_by = snapshot.decode_with_fold(found.value)
            if folded_by != fold:
                return Shown(found, why_not="its snapshot is of another fold than the gateway's")
        records = sorted(self._events_of(applier.entity, entity_id, tail))
        applied = applier.apply(entity_id, before, records)
        now = applied.snapshot or before
        if now is not None and now.asked:
            return Shown(found, why_not="it is being folded anew, for an event came out of turn")
        if applied.snapshot is None:
            return Shown(found, events=0)
        newest_ms = max(record.timestamp_ms for record in tail)
        partition, offset = (found.partition, found.offset) if found else (-1, -1)
        value = snapshot.encode(applied.snapshot, fold)
        events = applied.folded + len(applied.parked)
        return Shown(Found(value, newest_ms, partition, offset), events)

    def _events_of(
        self, entity: Entity, entity_id: str, tail: Sequence[TailRecord]
    ) -> Iterator[EventRecord]:
        for position, value, _ in tail:
            try:
                record = self._events.read(position, entity_id.encode(), value)
            except NoEvent:
                continue  # fold parks it
            if record.type in entity.reads:
                yield record
