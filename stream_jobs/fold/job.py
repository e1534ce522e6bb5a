"""event topics -> state topics: folds each entity's events onto its snapshot.

Spark may reorder rows on their way through the shuffle (a sort that spills does), so each entity's
records are put in event-log order here, before they are folded. What a change emits goes to its
event topic with it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import orjson
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.records import Outgoing
from shared.events import envelope
from shared.events.envelope import EventRecord, Header, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.events.stub import fitted
from shared.flow import load_flow
from shared.folding import refolding, snapshot
from shared.folding.applier import Applied, Applier, entity_fingerprint
from shared.folding.catch_up import folded_anew, has_caught_up, is_within
from shared.published import ledger
from shared.settings import JobSettings
from shared.topology import (
    REFOLD_TOPIC,
    REFOLDED_TOPIC,
    REPEAT_TOPIC,
    Flow,
    dead_letter_topic,
)
from stream_jobs.fold import clock_counts, rebuild, refolder
from stream_jobs.fold.deletion_schedule import Burials
from stream_jobs.fold.rebuild import STAGE
from stream_jobs.guards.lease import check_lease
from stream_jobs.source.log_source import read_logs, read_logs_up_to, written_by_its_work
from stream_jobs.source.topic_writer import WriterOf
from stream_jobs.source.writing_processor import Handler, Written
from stream_jobs.state.buckets import buckets_of
from stream_jobs.state.bulk_map_state import AT_ONCE, Key, States
from stream_jobs.state.packing import PACKED_DDL, pack_by_bucket, unpack
from stream_jobs.state.paged_states import PagedStates
from stream_jobs.supervision.status import Say
from stream_jobs.supervision.warm_up import empty_buckets

# of a partition: a batch's records of one are in memory at once, and each costs some calls a batch
_BUCKETS = 8


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
        self._made_anew = made_anew
        self._starts = starts or {}
        self._seeded: dict[tuple[str, str], int] = {}

    def init(self, states: States) -> None:
        # one for all: to declare another would take longer than to fold a hundred events
        self._states = states.of("kept", "entity", "id")
        self._snapshots = PagedStates(self._states)
        self._unsaved: dict[Key, bytes | None] = {}  # None: no snapshot any more
        self._burials = Burials(self._states, self._deleted_kept_ms)

    @cached_property
    def _appliers(self) -> dict[str, tuple[Applier, str]]:
        """By entity, with the fold's fingerprint."""
        flow = load_flow(self._flow_reference)
        types = {row.name: row for row in flow.event_types}
        return {
            row.name: (Applier(row, self._ring_size, types), entity_fingerprint(row))
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
    def _topic_by_type(self) -> dict[str, str]:
        return {row.name: row.topic for row in load_flow(self._flow_reference).event_types}

    @cached_property
    def _entity_by_topic(self) -> dict[str, str]:
        return {row.topic: row.name for row in load_flow(self._flow_reference).entities}

    def handleInitialState(self, _bucket: Any, row: Any, _timers: Any) -> None:  # noqa: N802
        """What this bucket has published. Parts of it come in any order, and a key's last record
        counts."""
        self._burials.begin()
        self._snapshots.begin()
        records = sorted(unpack(row.packed), key=lambda record: record[0])
        last = {
            (self._entity_by_topic[at.topic], raw_id.decode(errors="replace")): (at.offset, value)
            for at, raw_id, value in records
            if raw_id is not None
        }
        self._snapshots.get([key for key in last if key in self._seeded])
        for key, (offset, value) in last.items():
            if offset >= self._seeded.setdefault(key, offset):
                self._seeded[key] = offset
                self._seed(key, value)
            if len(self._unsaved) == AT_ONCE:
                self._save()
        self._save()
        self._snapshots.write()
        self._burials.write()

    def _seed(self, key: tuple[str, str], value: bytes | None) -> None:
        applier, fingerprint = self._appliers[key[0]]
        try:
            found = None if value is None else snapshot.decode_with_fold(value)
        except (ValueError, KeyError, TypeError):
            return  # nobody's snapshot
        if found is None:
            self._unsaved[key] = None
            return
        published, fold = found
        for log in self._made_anew & published.positions.keys():
            del published.positions[log]  # what stands there now is known by id alone
        if fold != fingerprint:
            published = folded_anew(applier.entity, key[1], published, self._logs[key[0]])
        refolding.start_from(published, self._starts)
        self._unsaved[key] = snapshot.encode(published, fingerprint)
        if published.deleted and published.ended_ms is not None:
            self._burials.add(key, published.ended_ms)

    @cached_property
    def _logs(self) -> dict[str, frozenset[str]]:
        """The topics that each entity reads."""
        flow = load_flow(self._flow_reference)
        topic = self._topic_by_type
        return {row.name: frozenset(topic[name] for name in row.reads) for row in flow.entities}

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Outgoing | Row]:
        check_lease(STAGE)
        self._clocks = 0, 0
        self._burials.begin()
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
        yield from self._fold(dict(self._by_entity(records)))
        yield from self._bury(arrived_ms)
        self._snapshots.write()
        yield from clock_counts.rows(self._clocks)

    def _by_entity(
        self, records: Mapping[str, list[EventRecord]]
    ) -> Iterator[tuple[Key, list[EventRecord]]]:
        for entity_id, unordered in records.items():
            by_entity: dict[str, list[EventRecord]] = defaultdict(list)
            for record in sorted(unordered):
                for entity in self._folded_by[record.type]:
                    by_entity[entity].append(record)
            for entity, own in by_entity.items():
                yield (entity, entity_id), own

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
        held = self._held_of(key) if before is not None and before.asked else []
        clocks = clock_counts.of(before)
        applied = applier.apply(entity_id, before, [*held, *records])
        self._count_clocks(clocks, clock_counts.of(applied.snapshot))
        now = applied.snapshot or before
        if now is not None and len(applied.held) > refolding.HELD_MAX:
            refolding.give_up(now, applied.held)
            applied = applied._replace(snapshot=now, held=(), asks=True)
        if held or applied.held:
            self._hold(key, applied.held)
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
            yield _repeats_row(entity_id, applied.repeats)
        after = applied.snapshot
        if after is None:
            return
        if behind:
            after.emissions = [r for r in after.emissions if not is_within(r.origin, behind)]
            after.behind = {} if has_caught_up(after) and not after.asked else behind
        if applied.asks:
            request = refolding.request_of(entity, entity_id, after)
            value = refolding.request_value(request)
            yield _row(REFOLD_TOPIC, request.key, value)
        value = snapshot.encode(after, fingerprint)
        self._unsaved[key] = value
        if not after.behind:
            yield _row(applier.entity.topic, entity_id.encode(), value)
        for record in applied.emitted:
            if not is_within(record.origin, behind):
                yield self._event_row(record)
        if after.deleted and after.ended_ms is not None:
            self._burials.add(key, after.ended_ms)

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
        applied = refolding.taken(applier, before, self._held_of(key), answer)
        if applied is None:
            return
        self._hold(key, applied.held)
        yield from self._changes(applier, fingerprint, key, applied, before.behind)
        self._save()
        if not applied.asks:
            done = refolding.request_of(*key, before).key
            yield _row(REFOLD_TOPIC, done, None)

    def _held_of(self, key: Key) -> list[EventRecord]:
        (stored,) = self._states.get([_held(key)])
        return [
            envelope.event_of(Position(*place), fields)
            for place, fields in orjson.loads(stored or b"[]")
        ]

    def _hold(self, key: Key, records: Sequence[EventRecord]) -> None:
        if records:
            held = [(list(record.position), envelope.event_fields(record)) for record in records]
            self._states.put({_held(key): orjson.dumps(held)})
        else:
            self._states.remove([_held(key)])

    def _bury(self, now_ms: int) -> Iterator[Outgoing]:
        """A null for each that was deleted so long ago that nobody sends it again what it knows. By
        the arrival of events, for a fold has no clock."""
        due: dict[Key, set[int]] = defaultdict(set)
        for key, ended_ms in self._burials.due(now_ms):
            due[key].add(ended_ms)
        for part in self._snapshots.parts(due):
            for key, stored in part:
                found = snapshot.decode(stored) if stored else None
                if found is None or not found.deleted or found.ended_ms not in due[key]:
                    continue  # it has come back
                if found.asked:  # what it is folded anew for may bring it back
                    self._burials.add(key, found.ended_ms)
                    continue
                self._unsaved[key] = None
                entity, entity_id = key
                yield _row(self._appliers[entity][0].entity.topic, entity_id.encode(), None)
            self._save()
        self._burials.write()

    def _event_row(self, record: EventRecord) -> Outgoing:
        return _row(
            self._topic_by_type[record.type],
            record.entity_id.encode(),
            envelope.event_value(record),
            envelope.event_headers(record),
        )


def _held(key: Key) -> Key:
    """What came for an entity while it is folded anew elsewhere: where it is kept. No entity has
    such a name."""
    return f"{key[0]} held", key[1]


def _row(
    topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> Outgoing:
    return Outgoing(topic, key, value, list(headers))


def _repeats_row(entity_id: str, origins: list[Position]) -> Outgoing:
    value = ledger.repeats_value(origins)
    return _row(REPEAT_TOPIC, entity_id.encode(), value)


def _dead_letter(
    position: Position, key: bytes | None, value: bytes, reason: str, detail: str
) -> Outgoing:
    failure = envelope.failure_headers((), STAGE, position, reason, detail)
    return _row(dead_letter_topic(STAGE), *fitted(position, key, value, failure))


def transform(
    events: GroupedData,
    settings: JobSettings,
    published: GroupedData | None = None,
    start: rebuild.Start | None = None,
) -> DataFrame:
    made_anew, starts = (start.made_anew, start.starts) if start else (frozenset(), {})
    fold = BucketFold(
        settings.flow, settings.id_ring_size, settings.deleted_kept_s, made_anew, starts
    )
    return events.transformWithState(
        Written(fold, WriterOf.job_of(STAGE, settings)),
        clock_counts.TOLD_DDL,
        outputMode="update",
        timeMode="none",
        initialState=published,
    )


def on_nothing(spark: SparkSession, settings: JobSettings) -> DataFrame:
    return transform(empty_buckets(spark), settings)


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Say) -> DataStreamWriter:
    start = rebuild.start(settings, flow, say)
    starting = start.offsets if start else None
    refolder.start(settings, flow)
    pack = partial(pack_by_bucket, buckets=buckets_of(settings.state_partitions, _BUCKETS))
    events = read_logs(spark, settings, STAGE, flow.fold_reads, pack, PACKED_DDL, starting)
    by_bucket = events.groupBy("bucket")
    if start is None or not start.snapshots:
        told = transform(by_bucket, settings).observe(STAGE, *clock_counts.observed())
        return written_by_its_work(told, settings, STAGE)
    records = read_logs_up_to(spark, settings, STAGE, start.snapshots, pack, PACKED_DDL)
    states = transform(by_bucket, settings, records.groupBy("bucket"), start)
    told = states.observe(STAGE, *clock_counts.observed())
    return written_by_its_work(told, settings, STAGE)
