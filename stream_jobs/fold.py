"""event topics -> state topics: folds each entity's events onto its snapshot.

Spark may reorder rows on their way through the shuffle (a sort that spills does), so each entity's
records are put in event-log order here, before they are folded. What a change emits goes to its
event topic with it.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from shared import envelope, ledger, snapshot
from shared.applier import Applier, entity_fingerprint
from shared.envelope import EventRecord, Header, Position
from shared.event_reader import EventReader, NoEvent
from shared.flow import load_flow
from shared.settings import JobSettings
from shared.topology import REPEAT_TOPIC, Flow, dead_letter_topic
from stream_jobs import arrow_records
from stream_jobs.kafka_io import read_topics, write_topics
from stream_jobs.lease import check_lease
from stream_jobs.packing import group_by_bucket, unpack
from stream_jobs.status import Say

STAGE = "fold"


class BucketFold(StatefulProcessor):
    """The fold of all entities whose ids fall into one bucket."""

    def __init__(self, flow: str, ring_size: int, deleted_kept_s: float) -> None:
        self._flow_reference = flow
        self._ring_size = ring_size
        self._deleted_kept_ms = int(deleted_kept_s * 1000)

    def init(self, handle: StatefulProcessorHandle) -> None:
        key = "entity string, id string"
        self._snapshots = handle.getMapState("snapshots", key, "snapshot binary")
        # of what is deleted, when that was: so that nobody has to look for it among all others
        self._deleted = handle.getMapState("deleted", key, "ended_ms long")

    def close(self) -> None:
        pass

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

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Row]:
        check_lease(STAGE)
        records: dict[str, list[EventRecord]] = defaultdict(list)
        arrived_ms = 0
        for row in rows:
            for position, key, maybe_value in unpack(row.packed):
                value = maybe_value or b""
                try:
                    record = self._events.read(position, key, value)
                except NoEvent as none:
                    yield _dead_letter(position, key, value, *none.args)
                else:
                    records[record.entity_id].append(record)
                    arrived_ms = max(arrived_ms, record.arrived_ms)
        for entity_id, unordered in records.items():
            yield from self._fold(entity_id, sorted(unordered))
        yield from self._bury(until_ms=arrived_ms - self._deleted_kept_ms)

    def _fold(self, entity_id: str, records: list[EventRecord]) -> Iterator[Row]:
        by_entity: dict[str, list[EventRecord]] = defaultdict(list)
        for record in records:
            for entity in self._folded_by[record.type]:
                by_entity[entity].append(record)
        for entity, own in by_entity.items():
            yield from self._fold_entity(*self._appliers[entity], entity_id, own)

    def _fold_entity(
        self, applier: Applier, fingerprint: str, entity_id: str, records: list[EventRecord]
    ) -> Iterator[Row]:
        key = (applier.entity.name, entity_id)
        stored = self._snapshots.getValue(key)
        before = snapshot.decode(bytes(stored[0])) if stored else None
        was_deleted = before is not None and before.deleted
        applied = applier.apply(entity_id, before, records)
        for record, reason, detail in applied.parked:
            value = envelope.event_value(record)
            yield _dead_letter(record.position, entity_id.encode(), value, reason, detail)
        if applied.repeats:
            yield _repeats_row(entity_id, applied.repeats)
        after = applied.snapshot
        if after is None:
            return
        value = snapshot.encode(after, fingerprint)
        self._snapshots.updateValue(key, (value,))
        yield Row(topic=applier.entity.topic, key=entity_id.encode(), value=value, headers=None)
        for record in applied.emitted:
            yield self._event_row(record)
        if after.deleted and after.ended_ms is not None:
            self._deleted.updateValue(key, (after.ended_ms,))
        elif was_deleted:
            self._deleted.removeKey(key)

    def _bury(self, until_ms: int) -> Iterator[Row]:
        """A null for each that was deleted so long ago that nobody sends it again what it knows. By
        the arrival of events, for a fold has no clock."""
        for key, (ended_ms,) in list(self._deleted.iterator()):
            if ended_ms <= until_ms:
                entity, entity_id = key
                self._snapshots.removeKey(key)
                self._deleted.removeKey(key)
                topic = self._appliers[entity][0].entity.topic
                yield Row(topic=topic, key=entity_id.encode(), value=None, headers=None)

    def _event_row(self, record: EventRecord) -> Row:
        return Row(
            topic=self._topic_by_type[record.type],
            key=record.entity_id.encode(),
            value=envelope.event_value(record),
            headers=_headers(envelope.event_headers(record)),
        )


def _headers(headers: list[Header]) -> list[Row]:
    return [Row(key=name, value=text) for name, text in headers]


def _repeats_row(entity_id: str, origins: list[Position]) -> Row:
    value = ledger.repeats_value(origins)
    return Row(topic=REPEAT_TOPIC, key=entity_id.encode(), value=value, headers=None)


def _dead_letter(
    position: Position, key: bytes | None, value: bytes, reason: str, detail: str
) -> Row:
    failure = envelope.failure_headers((), STAGE, position, reason, detail)
    topic = dead_letter_topic(STAGE)
    return Row(topic=topic, key=key, value=value, headers=_headers(failure))


def transform(events: DataFrame, settings: JobSettings) -> DataFrame:
    return group_by_bucket(events, settings.fold_buckets).transformWithState(
        BucketFold(settings.flow, settings.id_ring_size, settings.deleted_kept_s),
        arrow_records.OUTGOING_DDL,
        outputMode="update",
        timeMode="none",
    )


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Say) -> DataStreamWriter:
    events = read_topics(spark, settings, flow.folded_topics, with_headers=False)
    return write_topics(transform(events, settings), settings, STAGE)
