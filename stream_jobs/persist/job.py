"""event, state and view topics -> rows in PostgreSQL, with their completions in its outbox.

The store being away is no event's fault: the batch waits and runs again. Any batch may run again,
in part or whole: what is stored already is passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import record_of
from clients.postgres import store
from shared.errors import StoreAwayError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.settings import JobSettings
from stream_jobs.guards.breaker import Breaker
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.kafka_io.log_source import SELDOM_MS, read_logs
from stream_jobs.persist.advisory_lock import persist_lock
from stream_jobs.persist.rows import Row, RowMaker
from stream_jobs.persist.waiting_rows import RowRules
from stream_jobs.persist.writer import EventStore, chunks
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.until_stored import (
    sleep_in_query,
    stop_as_spark_knows_it,
    write_until_stored,
)

STAGE = "persist"
_OUTCOME_DDL = "away string"
_OUTCOME = pa.schema([("away", pa.string())])


@dataclass(frozen=True)
class PersistTask:
    """What a worker process needs to know; it keeps its connection from batch to batch."""

    flow: str
    url: str
    slow_after_s: float
    parked_after_s: float
    rows_of_line_max: int
    rows_max: int

    def __call__(self, read: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        away = None
        try:
            for chunk in chunks(_rows(read, _row_maker(self.flow))):
                _event_store(self).write(chunk)
        except StoreAwayError as error:
            away = str(error)  # told, not raised: a failed task would take the query with it
        yield pa.RecordBatch.from_pylist([{"away": away}], _OUTCOME)


@cache
def _row_maker(flow: str) -> RowMaker:
    return RowMaker.of(load_flow(flow))


@cache
def _event_store(task: PersistTask) -> EventStore:
    caps = task.rows_of_line_max, task.rows_max
    rules = RowRules.of(load_flow(task.flow), task.parked_after_s, *caps)
    return EventStore(task.url, task.slow_after_s, rules)


def _rows(read: Iterator[list[Message]], maker: RowMaker) -> Iterator[Row]:
    for messages in read:
        for message in messages:
            yield maker.make(record_of(message))


def write(frame: DataFrame) -> str | None:
    """One action, in which the batch's tasks read and write. Why the store did not take all."""
    return next((row.away for row in frame.collect() if row.away is not None), None)


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Report) -> DataStreamWriter:
    url = settings.postgres_url.get_secret_value()
    task = PersistTask(
        settings.flow,
        url,
        settings.slow_after_s,
        settings.parked_after_s,
        settings.waiting_per_entity_max,
        settings.waiting_rows_max,
    )

    lock = persist_lock(url)

    def write_as_the_only_one(frame: DataFrame) -> str | None:
        try:
            lock.hold()
        except StoreAwayError as away:
            return str(away)
        return write(frame)

    def persist_batch(frame: DataFrame, _batch_id: int) -> None:
        with stop_as_spark_knows_it():
            write_until_stored(
                lambda: write_as_the_only_one(frame),
                lambda: store.trouble(url),
                lambda breaker: say("waiting", f"PostgreSQL: {breaker.reason}", breaker),
                partial(sleep_in_query, spark),
            )
        say("running", "", Breaker())

    return (
        read_logs(
            spark,
            settings,
            STAGE,
            flow.job(STAGE).ignited_by,
            task,
            _OUTCOME_DDL,
            at_most_every_ms=SELDOM_MS,
        )
        .writeStream.queryName(STAGE)
        .option("checkpointLocation", str(checkpoint_of(settings, STAGE)))
        .foreachBatch(persist_batch)
    )
