"""Folds the events of a bucket of entities onto their snapshots.

It runs on Spark's executors, in a Python worker; a bucket is never at work twice at once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from pyspark.sql import Row

from clients.kafka.records import Outgoing
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow import load_flow
from shared.folding import refolding, snapshot
from shared.folding.applier import Applied, Applier
from shared.folding.catch_up import has_caught_up, is_within
from shared.folding.code_fingerprint import entity_fingerprint
from shared.published import ledger
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC, REPEAT_TOPIC
from stream_jobs.fold import clock_counts
from stream_jobs.fold.deletion_schedule import DeletionSchedule
from stream_jobs.fold.emission_rows import EmissionRows
from stream_jobs.fold.held_events import HeldEvents
from stream_jobs.fold.log_order import in_log_order
from stream_jobs.fold.published_snapshots import PublishedSnapshots
from stream_jobs.fold.rebuild import STAGE
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.writing_processor import Handler, dead_letter
from stream_jobs.state.buckets import unpack
from stream_jobs.state.bulk_map_state import AT_ONCE, Key, States
from stream_jobs.state.paged_states import PagedStates

_dead_letter = partial(dead_letter, STAGE)


class BucketFold(Handler):
    """The fold of all entities whose ids fall into one bucket."""

    def __init__(
        self,
        flow: str,
        ring_size: int,
        deleted_kept_s: float,
        made_anew: frozenset[str] = frozenset(),
        starts: Mapping[str, int] | None = None,
    ) -> None:
        self._flow_reference = flow
        self._ring_size = ring_size
        self._deleted_kept_ms = int(deleted_kept_s * 1000)
        self._published = PublishedSnapshots(flow, made_anew, starts or {})

    def init(self, states: States) -> None:
        # one for all: to declare another would take longer than to fold a hundred events
        states_of_all = states.of("kept", "entity", "id")
        self._snapshots = PagedStates(states_of_all)
        self._unsaved: dict[Key, bytes | None] = {}  # None: no snapshot any more
        self._held = HeldEvents(states_of_all)
        self._deletions = DeletionSchedule(states_of_all, self._deleted_kept_ms)

    @cached_property
    def _appliers(self) -> dict[str, tuple[Applier, str]]:
        """The appliers by entity, with the fold's fingerprint."""
        flow = load_flow(self._flow_reference)
        types = {row.name: row for row in flow.event_types}
        return {
            row.name: (
                Applier(row, self._ring_size, types, flow.actions_of(row.name)),
                entity_fingerprint(row),
            )
            for row in flow.entities
        }

    @cached_property
    def _folded_by(self) -> dict[str, list[str]]:
        """Event type -> entities."""
        by_type = defaultdict(list)
        for entity in load_flow(self._flow_reference).entities:
            for event_type in entity.reads:
                by_type[event_type].append(entity.name)
        return by_type

    @cached_property
    def _events(self) -> EventReader:
        return EventReader.of(load_flow(self._flow_reference))

    @cached_property
    def _emission_rows(self) -> EmissionRows:
        return EmissionRows(load_flow(self._flow_reference))

    def handleInitialState(self, _bucket: Any, row: Any, _timers: Any) -> None:  # noqa: N802
        """A part of what this bucket has published."""
        self._deletions.begin()
        self._snapshots.begin()
        last = self._published.last(row.packed)
        self._snapshots.get([key for key in last if self._published.knows(key)])
        for key, (offset, value) in last.items():
            if self._published.is_newest(key, offset):
                self._seed(key, value)
            if len(self._unsaved) == AT_ONCE:
                self._save()
        self._save()
        self._snapshots.write()
        self._deletions.write()

    def _seed(self, key: Key, value: bytes | None) -> None:
        if value is None:
            self._unsaved[key] = None
            return
        applier, fingerprint = self._appliers[key[0]]
        published = self._published.read(applier.entity, key[1], value, fingerprint)
        if published is None:
            return
        self._unsaved[key] = snapshot.encode(published, fingerprint)
        if published.deleted and published.ended_ms is not None:
            self._deletions.add(key, published.ended_ms)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Outgoing | Row]:
        check_lease(STAGE)
        self._clocks = 0, 0
        self._deletions.begin()
        self._snapshots.begin()
        answers: list[tuple[Position, bytes]] = []
        records: dict[str, list[EventRecord]] = defaultdict(list)
        arrived_ms = 0
        for row in rows:
            for position, key, maybe_value in unpack(row.packed):
                value = maybe_value or b""
                if position.topic == REFOLDED_TOPIC:
                    answers.append((position, value))
                    continue
                try:
                    record = self._events.read(position, key, value)
                except NoEvent as none:
                    yield _dead_letter(position, key, value, *none.args)
                else:
                    records[record.entity_id].append(record)
                    arrived_ms = max(arrived_ms, record.arrived_ms)
        for _, value in sorted(answers):
            yield from self._take_refolded(value)
        yield from self._fold(in_log_order(records, self._folded_by))
        yield from self._bury(arrived_ms)
        self._snapshots.write()
        yield from clock_counts.rows(self._clocks)

    def _fold(self, work: Mapping[Key, list[EventRecord]]) -> Iterator[Outgoing]:
        for part in self._snapshots.parts(work):
            for key, stored in part:
                yield from self._fold_entity(key, stored, work[key])
            self._save()

    def _save(self) -> None:
        self._snapshots.put(self._unsaved)
        self._unsaved.clear()

    def _fold_entity(
        self, key: Key, stored: bytes | None, records: list[EventRecord]
    ) -> Iterator[Outgoing]:
        (applier, fingerprint), entity_id = self._appliers[key[0]], key[1]
        before = snapshot.decode(stored) if stored else None
        behind = before.behind if before is not None else {}
        held = self._held.of(key) if before is not None and before.asked else []
        clocks = clock_counts.of(before)
        applied = applier.apply(entity_id, before, [*held, *records])
        self._count_clocks(clocks, clock_counts.of(applied.snapshot))
        now = applied.snapshot or before
        if now is not None and len(applied.held) > refolding.HELD_MAX:
            refolding.give_up(now, applied.held)
            applied = applied._replace(snapshot=now, held=(), asks=True)
        if held or applied.held:
            self._held.put(key, applied.held)
        yield from self._changes(applier, fingerprint, key, applied, behind)

    def _count_clocks(self, before: tuple[int, int], after: tuple[int, int]) -> None:
        if after > before:
            late, off = self._clocks
            self._clocks = late + after[0] - before[0], off + after[1] - before[1]

    def _changes(
        self,
        applier: Applier,
        fingerprint: str,
        key: Key,
        applied: Applied,
        behind: dict[str, int],
    ) -> Iterator[Outgoing]:
        entity, entity_id = key
        for record, reason, detail in applied.parked:
            value = envelope.event_value(record)
            yield _dead_letter(record.position, entity_id.encode(), value, reason, detail)
        if applied.repeats and not behind:
            value = ledger.repeats_value(applied.repeats)
            yield Outgoing(REPEAT_TOPIC, entity_id.encode(), value, [])
        after = applied.snapshot
        if after is None:
            return
        if behind:
            after.emissions = [r for r in after.emissions if not is_within(r.origin, behind)]
            after.behind = {} if has_caught_up(after) and not after.asked else behind
        if applied.asks:
            request = refolding.request_of(entity, entity_id, after)
            value = refolding.request_value(request)
            yield Outgoing(REFOLD_TOPIC, request.key, value, [])
        value = snapshot.encode(after, fingerprint)
        self._unsaved[key] = value
        if not after.behind:
            yield Outgoing(applier.entity.topic, entity_id.encode(), value, [])
        for record in applied.emitted:
            if not is_within(record.origin, behind):
                yield from self._emission_rows.of(record)
        if after.deleted and after.ended_ms is not None:
            self._deletions.add(key, after.ended_ms)

    def _take_refolded(self, value: bytes) -> Iterator[Outgoing]:
        try:
            answer, fold = refolding.read_answer(value)
            applier, fingerprint = self._appliers[answer.entity]
        except (ValueError, KeyError):
            return  # nobody's: what was asked for is still asked for
        key = answer.entity, answer.id
        (stored,) = self._snapshots.get([key])
        if not stored or fold != fingerprint:
            return
        before = snapshot.decode(stored)
        applied = refolding.taken(applier, before, self._held.of(key), answer)
        if applied is None:
            return
        self._held.put(key, applied.held)
        yield from self._changes(applier, fingerprint, key, applied, before.behind)
        self._save()
        if not applied.asks:
            done = refolding.request_of(*key, before).key
            yield Outgoing(REFOLD_TOPIC, done, None, [])

    def _bury(self, now_ms: int) -> Iterator[Outgoing]:
        """A null for each that was deleted so long ago that nobody sends it again what it knows. By
        the arrival of events, for a fold has no clock."""
        due: dict[Key, set[int]] = defaultdict(set)
        for key, ended_ms in self._deletions.due(now_ms):
            due[key].add(ended_ms)
        for part in self._snapshots.parts(due):
            for key, stored in part:
                found = snapshot.decode(stored) if stored else None
                if found is None or not found.deleted or found.ended_ms not in due[key]:
                    continue  # it has come back
                if found.asked:  # what it is folded anew for may bring it back
                    self._deletions.add(key, found.ended_ms)
                    continue
                self._unsaved[key] = None
                entity, entity_id = key
                topic = self._appliers[entity][0].entity.topic
                yield Outgoing(topic, entity_id.encode(), None, [])
            self._save()
        self._deletions.write()
