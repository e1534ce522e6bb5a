"""event topics -> state topics: folds each entity's events onto its snapshot.

Spark may reorder rows on their way through the shuffle (a sort that spills does), so each entity's
records are put in event-log order here, before they are folded.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from shared import envelope, ledger, snapshot
from shared.applier import Applier, fold_fingerprint
from shared.envelope import EventRecord, Position
from shared.flow import load_flow
from shared.model import Entity
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

    def __init__(self, flow: str, ring_size: int) -> None:
        self._flow_reference = flow
        self._ring_size = ring_size

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._snapshots = handle.getMapState(
            "snapshots", "entity string, id string", "snapshot binary"
        )

    def close(self) -> None:
        pass

    @cached_property
    def _appliers(self) -> dict[str, tuple[Applier, str]]:
        """By entity, with the fold's fingerprint."""
        entities = load_flow(self._flow_reference).entities
        return {
            row.name: (Applier(row, self._ring_size), fold_fingerprint(row.fold))
            for row in entities
        }

    @cached_property
    def _folded_by(self) -> dict[str, list[str]]:
        """Event type -> entities."""
        by_type = defaultdict(list)
        for entity in load_flow(self._flow_reference).entities:
            for event_type in entity.folds:
                by_type[event_type].append(entity.name)
        return by_type

    @cached_property
    def _type_by_topic(self) -> dict[str, str]:
        return {t.topic: t.name for t in load_flow(self._flow_reference).event_types}

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Row]:
        check_lease(STAGE)
        records: dict[str, list[EventRecord]] = defaultdict(list)
        for row in rows:
            for position, key, maybe_value in unpack(row.packed):
                value = maybe_value or b""
                try:
                    record = envelope.read_event(position, value)
                except ValueError as error:
                    yield _dead_letter(position, key, value, "no_event", str(error))
                    continue
                if key != record.entity_id.encode():
                    # buckets are made of keys: in this one the entity would get a second state
                    yield _dead_letter(position, key, value, "wrong_key", record.entity_id)
                elif self._type_by_topic.get(position.topic) != record.type:
                    yield _dead_letter(position, key, value, "wrong_type", record.type)
                else:
                    records[record.entity_id].append(record)
        for entity_id, unordered in records.items():
            yield from self._fold(entity_id, sorted(unordered))

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
        applied = applier.apply(entity_id, before, records)
        for record, reason, detail in applied.parked:
            value = envelope.event_value(record)
            yield _dead_letter(record.position, entity_id.encode(), value, reason, detail)
        if applied.repeats:
            yield _repeats_row(entity_id, applied.repeats)
        if applied.snapshot is not None:
            value = snapshot.encode(applied.snapshot, fingerprint)
            self._snapshots.updateValue(key, (value,))
            yield _state_row(applier.entity, entity_id, value)


def _state_row(entity: Entity, entity_id: str, value: bytes) -> Row:
    return Row(topic=entity.topic, key=entity_id.encode(), value=value, headers=None)


def _repeats_row(entity_id: str, origins: list[Position]) -> Row:
    value = ledger.repeats_value(origins)
    return Row(topic=REPEAT_TOPIC, key=entity_id.encode(), value=value, headers=None)


def _dead_letter(
    position: Position, key: bytes | None, value: bytes, reason: str, detail: str
) -> Row:
    failure = envelope.failure_headers((), STAGE, position, reason, detail)
    headers = [Row(key=name, value=text) for name, text in failure]
    return Row(topic=dead_letter_topic(STAGE), key=key, value=value, headers=headers)


def transform(events: DataFrame, settings: JobSettings) -> DataFrame:
    return group_by_bucket(events, settings.fold_buckets).transformWithState(
        BucketFold(settings.flow, settings.id_ring_size),
        arrow_records.OUTGOING_DDL,
        outputMode="update",
        timeMode="none",
    )


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Say) -> DataStreamWriter:
    events = read_topics(spark, settings, flow.folded_topics, with_headers=False)
    return write_topics(transform(events, settings), settings, STAGE)
