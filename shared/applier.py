"""The applier: snapshot + the event records after it -> the next snapshot. Pure.

One function serves the Spark job, readers, replays and tests. Records come in event-log order
(per topic); what the snapshot already contains is passed over, so any overlap is harmless.
"""

import ast
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from shared.envelope import EventRecord, Position
from shared.model import Entity, Event, Fields
from shared.snapshot import (
    DIGEST_CHARS,
    Snapshot,
    id_digest,
    refuse_what_cannot_be_written,
    ring_holds,
)
from shared.user_code import told

# a device clock may run ahead by this much before its times count as arrival + this
CLOCK_AHEAD_MAX_MS = 5 * 60 * 1000
_PARKED_MAX = 1000


class Parked(NamedTuple):
    """An event that the fold could not take."""

    record: EventRecord
    reason: str
    detail: str


class Applied(NamedTuple):
    snapshot: Snapshot | None  # None where nothing changed
    folded: int
    duplicates: int
    parked: list[Parked]
    repeats: list[Position]  # origins of what came again elsewhere: those that the ring knew


@dataclass(frozen=True)
class Applier:
    entity: Entity
    ring_size: int

    def apply(
        self, entity_id: str, snapshot: Snapshot | None, records: Iterable[EventRecord]
    ) -> Applied:
        """`snapshot` is changed in place and returned: its caller has just decoded it."""
        now = snapshot or Snapshot(state=self.entity.initial(entity_id))
        folded = duplicates = looked_at = 0
        parked: list[Parked] = []
        repeats: list[Position] = []
        for record in records:
            log = f"{record.position.topic}/{record.position.partition}"
            if record.position.offset <= now.positions.get(log, -1):
                continue
            now.positions[log] = record.position.offset
            looked_at += 1
            if self._is_second_writing(now, record):
                duplicates += 1
                continue
            digest = id_digest(record.id)
            if ring_holds(now.ring, digest):
                duplicates += 1
                repeats.append(record.origin)
                continue
            self._remember(now, record, digest)
            failure = self._fold(now, record)
            if failure is None:
                folded += 1
            else:
                parked.append(failure)
                now.parked = [*now.parked, record.id][-_PARKED_MAX:]
            now.version += 1
        return Applied(now if looked_at else None, folded, duplicates, parked, repeats)

    def _is_second_writing(self, now: Snapshot, record: EventRecord) -> bool:
        # A first attempt comes in the order of its origin: behind the mark it is a second writing
        # of enrich, however long ago. A retried one may come behind the mark for the first time.
        return record.attempt == 0 and record.origin.offset <= now.marks.get(_mark(record), -1)

    def _remember(self, now: Snapshot, record: EventRecord, digest: str) -> None:
        now.ring = (now.ring + digest)[-DIGEST_CHARS * self.ring_size :] if self.ring_size else ""
        if record.attempt == 0:
            now.marks[_mark(record)] = record.origin.offset

    def _fold(self, now: Snapshot, record: EventRecord) -> Parked | None:
        time_ms = min(record.time_ms, record.arrived_ms + CLOCK_AHEAD_MAX_MS)
        place = (time_ms, record.arrived_ms, record.origin.offset)
        newest = now.newest.get(record.type)
        late = newest is not None and place < newest
        try:
            event = Event(
                record.id,
                record.type,
                record.entity_id,
                time_ms,
                record.arrived_ms,
                late,
                record.data,
            )
            state = self.entity.fold(now.state, event)
            refuse_what_cannot_be_written(state, "a fold returns the new state")
        except Exception as error:  # a fold is a user's code: whatever it raises parks this event
            return Parked(record, "fold_failed", told(error, self.entity.fold))
        now.state = state
        if not late:
            now.newest[record.type] = place
            if now.event_time_ms is None or time_ms > now.event_time_ms:
                now.event_time_ms = time_ms
        return None


def _mark(record: EventRecord) -> str:
    return f"{record.type}:{record.origin.topic}/{record.origin.partition}"


def fold_fingerprint(fold: Callable[..., Fields]) -> str:
    """Changes with the code of the fold's module, not with its comments."""
    module = inspect.getmodule(fold)
    if module is None:
        raise ValueError(f"{fold!r} stands in no module: its changes could not be noticed")
    return sha256(ast.dump(ast.parse(inspect.getsource(module))).encode()).hexdigest()[:12]
