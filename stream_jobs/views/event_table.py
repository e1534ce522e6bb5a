"""Records of an event topic -> the table that a view's SQL reads.

What makes rows of the columns is a plan of Spark's own. Of the events, Python has those in hand
that are of an old shape, which a domain's upcasters lift, and those that `event_columns.py` takes
one by one.
"""

from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from clients.kafka.messages import position_of
from shared.events.envelope import event_value
from shared.events.event_reader import EventReader, NoEvent
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.model import EventType, View
from shared.tables.columns import columns_of
from shared.tables.view_rows import TENANT
from stream_jobs.kafka_io.log_rows import LogRows, quoted
from stream_jobs.views.event_columns import EventColumns

# what a batch observes of its events: those that count in no row, and why
LATE, CORRECTIONS, STRAGGLERS = "late", "corrections", "stragglers"
_NEVER_NULL = "event_id", "entity_id", "time", "arrived"
# of envelopes whose times are none
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@dataclass(frozen=True)
class EventsOf(LogRows):
    """With those of an old shape in today's."""

    flow: str
    event_type: str

    @classmethod
    def its(cls, job: str, settings_flow: str, event_type: EventType) -> "EventsOf":
        fields = pa.schema([("key", pa.binary()), *EventColumns(event_type).fields])
        return cls(job, fields, settings_flow, event_type.name)

    def columns(self, messages: list[Message]) -> list[pa.Array]:
        keys = pa.array([message.key() for message in messages], pa.binary())
        return [keys, *_event_columns(self.flow, self.event_type).of(self.values(messages))]

    def values(self, messages: list[Message]) -> list[bytes | None]:
        reader = _lifting_reader(self.flow, self.event_type)
        if reader is None:
            return [message.value() for message in messages]
        return [_in_shape(reader, message) for message in messages]


@cache
def _event_columns(flow: str, event_type: str) -> EventColumns:
    return EventColumns(load_flow(flow).event_type(event_type))


def _in_shape(reader: EventReader, message: Message) -> bytes | None:
    """What is no event is persist's to park."""
    try:
        record = reader.read(position_of(message), message.key(), message.value() or b"")
    except NoEvent:
        return None
    return event_value(record)


@cache
def _lifting_reader(flow: str, event_type: str) -> EventReader | None:
    """None where every event has today's shape."""
    its_flow = load_flow(flow)
    return EventReader.of(its_flow) if its_flow.event_type(event_type).shape > 1 else None


def event_table(logs: DataFrame, flow: Flow, row: View, name: str) -> DataFrame:
    """Each event once, unless it is late: one that comes again is late by then, or its id is still
    known. So nothing in the table depends on which events came in a batch together."""
    event_type = flow.event_type(name)
    late_after = f.make_dt_interval(secs=f.lit(row.late_after_s))
    is_cut = f.col("is_cut").isNotNull()
    # no event has happened after it arrived, or was here: by a clock that is ahead it would have,
    # and nothing may be ahead of the cut
    time = f.least(_time("time_ms"), _time("arrived_ms"), f.col("appended"))
    known = logs.select(
        f.when(is_cut, f.col("appended")).otherwise(time).alias("time"),
        _time("arrived_ms").alias("arrived"),
        f.coalesce(_is_event(event_type), f.lit(False)).alias("is_event"),
        # a straggler is late by the cut before, which it should not be older than
        (time < f.greatest("appended", "after") - late_after).alias("is_late"),
        (f.coalesce("revision", f.lit(0)) > 0).alias("is_correction"),
        (f.col("appended") <= f.col("after")).alias("is_straggler"),
        *_columns(event_type),
        is_cut.alias("is_cut"),
    )
    is_event, is_late, is_correction = map(f.col, ("is_event", "is_late", "is_correction"))
    counted = known.observe(
        f"{row.name} {name}",
        f.count_if(is_event & is_late).alias(LATE),
        f.count_if(is_event & ~is_late & is_correction).alias(CORRECTIONS),
        f.count_if(is_event & f.col("is_straggler")).alias(STRAGGLERS),
    )
    # The cut's row has to reach withWatermark, and to go no further. The condition names the time,
    # so Spark does not move this filter below withWatermark.
    is_no_cut = ~(f.col("is_cut") & f.col("time").isNotNull())
    return (
        counted.where(f.col("is_cut") | (is_event & ~is_late & ~is_correction))
        .withWatermark("time", f"{round(row.late_after_s * 1000)} milliseconds")
        .where(is_no_cut)
        .dropDuplicatesWithinWatermark(["event_id"])
        # None of them is. It is said here so that Spark knows it of a view's columns, and below
        # these conditions it goes no further down.
        .where(" AND ".join(f"{name} IS NOT NULL" for name in _NEVER_NULL))
        .drop("is_event", "is_late", "is_correction", "is_straggler", "is_cut")
    )


def _is_event(event_type: EventType) -> Column:
    """Anyone may have written it: what is none is persist's to park."""
    return (
        (f.col("type") == event_type.name)
        & (f.col("key").cast("string") == f.col("entity_id"))
        & (f.coalesce("shape", f.lit(1)) == event_type.shape)
        & f.col("id").isNotNull()
        & f.col("has_data")
        & _time("time_ms").isNotNull()
        & _time("arrived_ms").isNotNull()
    )


def _time(field: str) -> Column:
    """Null where it is none; Spark would stop at one that is too large."""
    ms = f.col(field)
    return f.timestamp_millis(f.when(ms.between(_FIRST_MS, _LAST_MS), ms))


def _columns(event_type: EventType) -> list[Column]:
    entity_id = f.col("entity_id")
    tenant = f.when(entity_id.contains("/"), f.split_part(entity_id, f.lit("/"), f.lit(1)))
    return [
        f.col("id").alias("event_id"),
        entity_id.alias("entity_id"),
        tenant.alias(TENANT),
        *(
            f.col(quoted(f"data_{column.name}")).alias(column.name)
            for column in columns_of((event_type,))
        ),
    ]
