"""The applier: snapshot + the event records after it -> the next snapshot. Pure.

One function serves the Spark job, readers, replays and tests. Records come in event-log order
(per topic); what the snapshot already contains is passed over, so any overlap is harmless.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from shared.actions import Action
from shared.events.envelope import EventRecord, Position
from shared.folding import deadlines, emissions
from shared.folding.bursts import DIGEST_CHARS, Bursts
from shared.folding.event_clock import is_clock_off
from shared.folding.fold_error import first_snapshot, told
from shared.folding.snapshot import (
    Newest,
    Snapshot,
    id_digest,
    refuse_what_cannot_be_written,
)
from shared.model import Entity, Event, EventType, Fields

# of one type and one time of the log; more are a burst
_TOGETHER_MAX = 8
_PARKED_MAX = 1000
_CORRECTIONS_MAX = 1000
_ASKED_MAX = 2000  # in one refold; of more, only these emit anew


class Parked(NamedTuple):
    """An event that the fold could not take."""

    record: EventRecord
    reason: str
    detail: str


# the payload's place, and which event of it, where it became several
Repeat = tuple[Position, str | None]


class Applied(NamedTuple):
    snapshot: Snapshot | None  # None where nothing changed
    folded: int
    duplicates: int
    parked: list[Parked]
    repeats: list[Repeat]  # what came again elsewhere: those that the ring knew
    emitted: Sequence[EventRecord] = ()
    held: Sequence[EventRecord] = ()  # what came behind an event that asks for a refold
    asks: bool = False  # anew, for a refold up to the snapshot's positions


@dataclass(frozen=True)
class Applier:
    entity: Entity
    ring_size: int
    # of those that the entity emits: what an emission must be
    event_types: Mapping[str, EventType] = field(default_factory=dict)
    actions: Sequence[Action] = ()  # whose results the entity waits for, and not for ever

    def apply(
        self, entity_id: str, snapshot: Snapshot | None, records: Iterable[EventRecord]
    ) -> Applied:
        """`snapshot` is changed in place and returned: its caller has just decoded it."""
        now = snapshot or first_snapshot(self.entity, entity_id)
        if isinstance(now, str):  # without a state nothing can be folded
            return Applied(None, 0, 0, [Parked(one, "initial_failed", now) for one in records], [])
        folded = duplicates = looked_at = 0
        parked: list[Parked] = []
        repeats: list[Repeat] = []
        emitted: list[EventRecord] = []
        held: list[EventRecord] = []
        asks = False
        for record in records:
            log = f"{record.position.topic}/{record.position.partition}"
            if record.position.offset <= now.positions.get(log, -1):
                continue
            if (record.attempt or record.revision) and self._asks_for_refold(now, record):
                if not now.asked:
                    now.emitted_to = dict(now.positions)
                # the log has what was held so far: a refold up to here will have it, too
                for at, *_ in (*held, record):
                    now.positions[f"{at.topic}/{at.partition}"] = at.offset
                held.clear()
                now.asked[record.id] = record.revision
                if len(now.asked) > _ASKED_MAX:
                    del now.asked[next(iter(now.asked))]
                asks = True
                looked_at += 1
                continue
            if now.asked:
                held.append(record)
                continue
            now.positions[log] = record.position.offset
            looked_at += 1
            if record.revision:
                continue  # it was taken in before, or a higher one
            mark = self.mark(record)
            if _is_second_writing(now, record, mark):
                duplicates += 1
                continue
            digest = id_digest(record.id)
            if now.knows(digest) and not _is_sent_on_again(now, record):
                duplicates += 1
                if record.cause is None:
                    repeats.append((record.origin, record.id if record.parts > 1 else None))
                continue
            failure = self.fold(now, record, mark, digest, emitted)
            if failure is None:
                folded += 1
            else:
                parked.append(failure)
        if not looked_at:
            return Applied(None, 0, 0, parked, repeats, held=held)
        now.emissions = emissions.last(emitted)
        return Applied(now, folded, duplicates, parked, repeats, emitted, held, asks)

    def fold(
        self, now: Snapshot, record: EventRecord, mark: str, digest: str, emitted: list[EventRecord]
    ) -> Parked | None:
        """Folds a record that is known to be new; `digest` is its id's."""
        self._remember(now, record, mark, digest)
        failure = self._take(now, record, emitted)
        if failure is not None:
            now.parked = [*now.parked, record.id][-_PARKED_MAX:]
        now.version += 1
        return failure

    def _remember(self, now: Snapshot, record: EventRecord, mark: str, digest: str) -> None:
        if record.revision:
            now.corrections[record.id] = record.revision
            if len(now.corrections) > _CORRECTIONS_MAX:
                del now.corrections[next(iter(now.corrections))]
        if self.ring_size:
            self._remember_id(now, record.type, record.arrived_ms, digest)
        offset = record.origin.offset
        if record.attempt == 0:
            if record.cause is None:
                now.marks[mark] = offset
                if record.part:
                    now.mark_parts[mark] = record.part
                elif now.mark_parts:
                    now.mark_parts.pop(mark, None)
            return
        now.retried_marks[mark] = max(offset, now.retried_marks.get(mark, -1))
        if record.id in now.parked:
            now.parked = [parked for parked in now.parked if parked != record.id]

    def _remember_id(self, now: Snapshot, kind: str, arrived_ms: int, digest: str) -> None:
        """The log gives what comes together one time. More than a few of one time are a burst: they
        come again together, too, however many they are, and must not push each other out."""
        if now.moment == (kind, arrived_ms):
            now.in_moment += 1
            if now.in_moment > _TOGETHER_MAX:
                self._remember_in_burst(now, kind, digest)
                return
        else:
            now.moment, now.in_moment = (kind, arrived_ms), 1
            if now.bursts is not None:
                now.bursts.age(kind, self.ring_size)
        ring = now.rings.get(kind, "") + digest
        now.rings[kind] = ring[-DIGEST_CHARS * self.ring_size :]

    def _remember_in_burst(self, now: Snapshot, kind: str, digest: str) -> None:
        if now.bursts is None:
            now.bursts = Bursts()
        if now.in_moment == _TOGETHER_MAX + 1:
            now.bursts.begin(kind, now.rings.get(kind, "")[-DIGEST_CHARS * _TOGETHER_MAX :])
        now.bursts.add(digest)

    def _asks_for_refold(self, now: Snapshot, record: EventRecord) -> bool:
        """A correction: what it corrects is in the state, and only the log can take that out again.
        Or one that was sent on again, and is older than what was folded without it."""
        if record.revision:
            known = max(now.corrections.get(record.id, 0), now.asked.get(record.id, 0))
            return record.revision > known
        if record.attempt == 0 or record.cause is not None or record.id in now.asked:
            return False
        mark, offset = self.mark(record), record.origin.offset
        last = now.marks.get(mark, -1)
        is_older_part = offset == last and record.part < now.mark_parts.get(mark, 0)
        if not is_older_part and offset >= max(last, now.retried_marks.get(mark, -1)):
            return False
        return record.id in now.parked or not now.knows(id_digest(record.id))

    def mark(self, record: EventRecord) -> str:
        line = self._lines.get(record.type, record.type)
        return f"{line}:{record.origin.topic}/{record.origin.partition}"

    @cached_property
    def _lines(self) -> dict[str, str]:
        return {name: row.line for name, row in self.event_types.items()}

    def _take(
        self, now: Snapshot, record: EventRecord, emitted: list[EventRecord]
    ) -> Parked | None:
        """Whatever it raises, nothing of the event stays but that it is known."""
        arrived_ms = record.arrived_ms
        if now.ended_ms is not None and arrived_ms <= now.ended_ms:
            return None  # of a life that is over
        newest = now.newest.get(record.type)
        clock_off = is_clock_off(record.time_ms, arrived_ms, newest)
        time_ms = arrived_ms if clock_off else record.time_ms
        place = (time_ms, arrived_ms, record.origin.offset)
        late = newest is not None and place < newest
        event = Event(
            record.id, record.type, record.entity_id, time_ms, arrived_ms, late, record.data
        )
        entity, reason = self.entity, "fold_failed"
        function: Callable[..., object] = entity.fold
        follow: list[EventRecord] = []
        try:
            if record.type in entity.deleted_by:
                reason, function = "derive_failed", entity.derive or entity.fold
                self._delete(now, record, event, emitted)
                return None
            state = entity.fold(now.state, event)
            refuse_what_cannot_be_written(state, "a fold returns the new state")
            if entity.derive is not None:
                reason, function = "derive_failed", entity.derive
                follow = self._derived(now.state, state, record, event)
            if self.actions:
                follow += deadlines.records(self.actions, record, follow, now.version + 1)
            emitted += follow
        except Exception as error:  # a fold is a user's code: whatever it raises parks this event
            return Parked(record, reason, told(error, function))
        now.state = state
        now.deleted = False
        if now.arrived_ms is None or arrived_ms > now.arrived_ms:
            now.arrived_ms = arrived_ms
        now.clock_off += clock_off
        if late:
            now.late += 1
        else:
            _note_newest(now, record.type, place)
        return None

    def _delete(
        self, now: Snapshot, record: EventRecord, event: Event, emitted: list[EventRecord]
    ) -> None:
        """Deletes by the time of arrival, the one clock that all types share: so it is the same
        entity whether this comes before or after what arrived next."""
        lives_again = now.arrived_ms is not None and now.arrived_ms > event.arrived_ms
        if not (now.deleted or lives_again):
            state = self.entity.initial(record.entity_id)
            if self.entity.derive is not None:
                emitted += self._derived(now.state, state, record, event)
            now.state = state
            now.deleted = True
        now.ended_ms = event.arrived_ms
        now.event_time_ms = max(event.time_ms, now.event_time_ms or event.time_ms)

    def _derived(
        self, before: Fields, after: Fields, record: EventRecord, event: Event
    ) -> list[EventRecord]:
        assert self.entity.derive is not None
        drafts = self.entity.derive(before, after, event)
        if not drafts:
            return []
        return emissions.records(self.entity, self.event_types, record, event, drafts)


def _is_second_writing(now: Snapshot, record: EventRecord, mark: str) -> bool:
    # A first attempt comes in the order of its origin: behind the mark it was written again, and be
    # it long ago. A retried or derived one may come behind the mark for the first time.
    if record.attempt or record.cause is not None:
        return False
    last = now.marks.get(mark, -1)
    if record.origin.offset == last:
        return record.part <= now.mark_parts.get(mark, 0)
    return record.origin.offset < last


def _is_sent_on_again(now: Snapshot, record: EventRecord) -> bool:
    """Whether it is an event that was parked and is sent on again: it has had no effect yet."""
    return record.attempt > 0 and record.id in now.parked


def _note_newest(now: Snapshot, event_type: str, place: Newest) -> None:
    now.newest[event_type] = place
    if now.event_time_ms is None or place[0] > now.event_time_ms:
        now.event_time_ms = place[0]
