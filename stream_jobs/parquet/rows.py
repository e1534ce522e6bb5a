"""Records of event topics -> rows of a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from clients.kafka.messages import position_of
from shared.events.envelope import EventRecord
from shared.events.event_reader import EventReader, NoEvent
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.ids import tenant_of
from shared.model import ParquetFiles
from shared.tables.columns import DAY, OF_EACH_EVENT, REST, Column, columns_of, sql_type, values_of
from stream_jobs.guards.lease import check_lease

STAGE = "parquet"
_ARROW = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}


@dataclass(frozen=True)
class RowsOf:
    """What a worker process needs to know."""

    flow: str
    name: str

    def __call__(self, read: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        maker = _maker(self)
        for messages in read:
            check_lease(STAGE)
            yield maker.rows(messages)


class _Maker:
    def __init__(self, flow: Flow, row: ParquetFiles) -> None:
        self._events = EventReader.of(flow)
        self._types = frozenset(row.of)
        self._columns = table_columns(flow, row)
        kinds = _kinds(self._columns)
        self._schema = pa.schema([(name, _ARROW[kind]) for name, kind in kinds.items()])

    def rows(self, messages: list[Message]) -> pa.RecordBatch:
        rows = [self._row(event) for message in messages for event in self._event(message)]
        arrays = [
            pa.array([row[number] for row in rows], its.type)
            for number, its in enumerate(self._schema)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _event(self, message: Message) -> Iterator[EventRecord]:
        """None where it is no event: that is persist's to park."""
        try:
            event = self._events.read(position_of(message), message.key(), message.value() or b"")
        except NoEvent:
            return
        if event.type in self._types:
            yield event

    def _row(self, event: EventRecord) -> tuple[Any, ...]:
        values, rest = values_of(self._columns, event.data)
        arrived = datetime.fromtimestamp(event.arrived_ms / 1000, UTC)
        return (
            event.id,
            event.type,
            event.entity_id,
            tenant_of(event.entity_id) or None,
            event.time_ms * 1000,
            event.arrived_ms * 1000,
            *event.origin,
            event.revision,
            *values,
            rest,
            arrived.date(),
        )


def table_columns(flow: Flow, row: ParquetFiles) -> tuple[Column, ...]:
    return columns_of(tuple(flow.event_type(name) for name in row.of))


def ddl(columns: tuple[Column, ...]) -> str:
    kinds = _kinds(columns).items()
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in kinds)


def _kinds(columns: tuple[Column, ...]) -> dict[str, str]:
    fields = {column.name: sql_type(column.kind) for column in columns}
    return {**OF_EACH_EVENT, **fields, REST: "string", DAY: "date"}


@cache
def _maker(of: RowsOf) -> _Maker:
    flow = load_flow(of.flow)
    return _Maker(flow, next(row for row in flow.parquet_files if row.name == of.name))
