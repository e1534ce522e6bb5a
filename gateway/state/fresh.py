"""A state that is ahead of its snapshot: folded here from the events that fold has not done yet.

By the same applier as in the job. It is shown and nothing else: nobody keeps it but for the next
question, which folds only what has come since. One thread folds for all, a few events at a time, so
the loop that answers everybody else goes on meanwhile.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from gateway.state.event_tail import TailRecord
from gateway.state.event_tail_reader import NotFresh, TailFollower
from gateway.state_view.reader import Found
from shared.events.envelope import EventRecord
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.code_fingerprint import entity_fingerprint
from shared.folding.snapshot import Snapshot
from shared.model import Aggregate, Entity

_WAITS_S = 1.5  # the first who asks, until the tail has been read
_LOOK_EVERY_S = 0.01
_READS_MAX = 16  # that wait for the thread, or have it
_EVENTS_AT_ONCE = 25  # then others may run
_KEPT_MAX = 64  # entities
_ANEW = "it is being folded anew, for an event came out of turn"


class Shown(NamedTuple):
    """A state, and where a fresh one was asked for, how many events it is ahead of its snapshot or
    why it is not the newest."""

    found: Found | None
    events: int | None = None
    why_not: str | None = None


class _Folded(NamedTuple):
    """A snapshot, and what was folded on top of it."""

    base: tuple[int, int]
    now: Snapshot
    events: int
    newest_ms: int


class FreshStates:
    def __init__(self, flow: Flow, follower: TailFollower, ring_size: int, events_max: int) -> None:
        types = {row.name: row for row in flow.event_types}
        self._appliers = {row.name: Applier(row, ring_size, types) for row in flow.entities}
        self._events = EventReader.of(flow)
        self._follower = follower
        self._events_max = events_max
        self._thread = ThreadPoolExecutor(1, "fresh")
        self._room = threading.Semaphore(_READS_MAX)
        self._kept: OrderedDict[tuple[str, str], _Folded] = OrderedDict()  # the thread's own

    async def tail_of(self, entity: Entity | Aggregate, key: str) -> Sequence[TailRecord]:
        """Before the snapshot is looked up, so that no event is in neither. NotFresh says why it
        cannot be had."""
        if isinstance(entity, Aggregate):
            raise NotFresh(f"{entity.name} is added up from snapshots, not from events")
        give_up_s = time.monotonic() + _WAITS_S
        while (why_not := self._follower.ask()) is not None:
            if time.monotonic() >= give_up_s:
                raise NotFresh(why_not)
            await asyncio.sleep(_LOOK_EVERY_S)
        if not self._follower.covers(entity.topic, key.encode()):
            raise NotFresh("another gateway holds this state")
        records = self._follower.tail.of(key.encode())
        if why_not := self._follower.ask():  # it may have been given up meanwhile
            raise NotFresh(why_not)
        return records

    async def state(
        self,
        entity: Entity | Aggregate,
        entity_id: str,
        found: Found | None,
        tail: Sequence[TailRecord],
    ) -> Shown:
        if not self._room.acquire(blocking=False):
            return Shown(found, why_not="too many fresh states are asked for at once")
        folding = self._thread.submit(self._fold, entity.name, entity_id, found, tail)
        folding.add_done_callback(lambda _: self._room.release())  # also of one who has gone
        return await asyncio.wrap_future(folding)

    def _fold(
        self, name: str, entity_id: str, found: Found | None, tail: Sequence[TailRecord]
    ) -> Shown:
        applier = self._appliers[name]
        fold = entity_fingerprint(applier.entity)
        base = (found.partition, found.offset) if found else (-1, -1)
        # it is changed in place: kept again only where all goes well
        kept = self._kept.pop((name, entity_id), None)
        now, events, newest_ms = None, 0, 0
        if found is not None and kept is not None and kept.base == base:
            _, now, events, newest_ms = kept
        elif found is not None:
            now, folded_by = snapshot.decode_with_fold(found.value)
            if folded_by != fold:
                return Shown(found, why_not="its snapshot is of another fold than the gateway's")
        new = _behind(now, tail)
        if events + len(new) > self._events_max:
            return Shown(
                found,
                why_not=f"{events + len(new)} events wait to be folded, "
                f"HEADRACE_FRESH_EVENTS_MAX allows {self._events_max}",
            )
        is_ahead = newest_ms > 0
        for begin in range(0, len(new), _EVENTS_AT_ONCE):
            some = new[begin : begin + _EVENTS_AT_ONCE]
            applied = applier.apply(
                entity_id, now, list(self._events_of(applier.entity, entity_id, some))
            )
            is_ahead |= applied.snapshot is not None
            now = applied.snapshot or now
            events += applied.folded + len(applied.parked)
            newest_ms = max(newest_ms, *(record.timestamp_ms for record in some))
            time.sleep(0)  # whoever waits for the interpreter has it now
        if now is not None and now.asked:
            return Shown(found, why_not=_ANEW)
        if now is None or not is_ahead:
            return Shown(found, events=0)
        if found is not None:
            self._keep(name, entity_id, _Folded(base, now, events, newest_ms))
        return Shown(Found(snapshot.encode(now, fold), newest_ms, *base), events)

    def _keep(self, name: str, entity_id: str, folded: _Folded) -> None:
        self._kept[name, entity_id] = folded
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)

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


def _behind(now: Snapshot | None, tail: Sequence[TailRecord]) -> list[TailRecord]:
    """In the order of their logs, those that are not in it."""
    done = now.positions if now else {}
    return sorted(
        record
        for record in tail
        if record.position.offset
        > done.get(f"{record.position.topic}/{record.position.partition}", -1)
    )
