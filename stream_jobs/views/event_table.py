"""Records of an event topic -> the table that a view's SQL reads.

All of it is a plan of Spark's own: no event passes through Python, but for those of an old shape,
which a domain's upcasters lift.
"""

from dataclasses import dataclass
from functools import cache

from confluent_kafka import Message
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from clients.kafka.messages import position_of
from shared.events.envelope import event_value
from shared.events.event_reader import EventReader, NoEvent
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.model import EventType, View
from shared.tables.columns import columns_of, sql_type
from stream_jobs.source.log_rows import LogRows

# what a batch observes of its events
LATE, CORRECTIONS = "late", "corrections"


@dataclass(frozen=True)
class EventsOf(LogRows):
    """With those of an old shape in today's."""

    flow: str
    event_type: str

    def values(self, messages: list[Message]) -> list[bytes | None]:
        reader = _lifting_reader(self.flow, self.event_type)
        if reader is None:
            return super().values(messages)
        return [_in_shape(reader, message) for message in messages]


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


def event_table(logs: DataFrame, flow: Flow, row: View) -> DataFrame:
    """Each event once, unless it is late: one that comes again was late already, or is known yet.
    So nothing in the table depends on which events came in a batch together."""
    event_type = flow.event_type(row.of[0])
    late_after = f.make_dt_interval(secs=f.lit(row.late_after_s))
    read = logs.select(
        f.from_json(f.col("value").cast("string"), _schema(event_type)).alias("event"),
        *("key", "appended", "is_cut"),
    )
    is_cut = f.col("is_cut").isNotNull()
    # no filter yet: Spark would put it below, and read each JSON once more for each part of it
    known = read.select(
        # by a clock that is ahead it would have happened after it came
        f.when(is_cut, f.col("appended")).otherwise(f.least(*_times())).alias("time"),
        f.timestamp_millis("event.arrived_ms").alias("arrived"),
        f.coalesce(_is_event(event_type), f.lit(False)).alias("is_event"),
        (f.least(*_times()) < f.col("appended") - late_after).alias("is_late"),
        (f.coalesce("event.revision", f.lit(0)) > 0).alias("is_correction"),
        *_columns(event_type),
        is_cut.alias("is_cut"),
    )
    is_event, is_late, is_correction = map(f.col, ("is_event", "is_late", "is_correction"))
    counted = known.observe(
        row.name,
        f.count_if(is_event & is_late).alias(LATE),
        f.count_if(is_event & ~is_late & is_correction).alias(CORRECTIONS),
    )
    # of the cut, Spark is to see its time and no more; asked for by its time, the row comes so far
    is_no_cut = ~(f.col("is_cut") & f.col("time").isNotNull())
    return (
        counted.where(f.col("is_cut") | (is_event & ~is_late & ~is_correction))
        .withWatermark("time", f"{round(row.late_after_s * 1000)} milliseconds")
        .where(is_no_cut)
        .dropDuplicates(["event_id", "time"])
        .drop("is_event", "is_late", "is_correction", "is_cut")
    )


def _is_event(event_type: EventType) -> Column:
    """Anyone may have written it: what is none is persist's to park."""
    its_own = f.col("key").cast("string") == f.col("event.entity_id")
    return (f.col("event.type") == event_type.name) & its_own & f.col("event.id").isNotNull()


def _times() -> tuple[Column, Column]:
    return f.timestamp_millis("event.time_ms"), f.timestamp_millis("event.arrived_ms")


def _columns(event_type: EventType) -> list[Column]:
    tenant = f.when(f.col("event.entity_id").contains("/"), f.split_part(*_by_slash()))
    return [
        f.col("event.id").alias("event_id"),
        f.col("event.entity_id").alias("entity_id"),
        tenant.alias("tenant"),
        *(
            f.col("event.data").getField(column.field).alias(column.name)
            for column in columns_of((event_type,))
        ),
    ]


def _by_slash() -> tuple[Column, Column, Column]:
    return f.col("event.entity_id"), f.lit("/"), f.lit(1)


def _schema(event_type: EventType) -> StructType:
    texts, numbers = ("id", "type", "entity_id"), ("time_ms", "arrived_ms", "revision")
    data = StructType()
    for column in columns_of((event_type,)):
        data.add(column.field, sql_type(column.kind))
    return StructType(
        [
            *(StructField(name, StringType()) for name in texts),
            *(StructField(name, LongType()) for name in numbers),
            StructField("data", data),
        ]
    )
