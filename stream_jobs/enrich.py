"""ingest topics -> event topics; what cannot be an event goes to the lanes.

What comes again comes on a topic of its own, and is taken as what it was when it first came.

Stateless: a batch that is run again writes its records again, under the same ids and origins.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.flow import load_flow
from shared.kafka_access import KafkaAccess
from shared.settings import JobSettings
from shared.topology import Flow
from stream_jobs import arrow_records
from stream_jobs.enrichment import STAGE, Enrich, Payload, as_first_come, enricher
from stream_jobs.fresh_fields import FreshFields
from stream_jobs.kafka_io import read_topics, write_topics
from stream_jobs.lease import check_lease
from stream_jobs.master_view import MasterView
from stream_jobs.status import Say


class EnrichTask(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    flow: str
    kafka: KafkaAccess
    master_age_max_s: float
    postgres_url: str
    slow_after_s: float

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        enrich = _enricher(self.flow)
        master = _master_view(self)
        fresh = _fresh_fields(self)
        topics = {endpoint.topic for endpoint in load_flow(self.flow).endpoints}
        for batch in batches:
            check_lease(STAGE)
            master.refresh()
            payloads = [as_first_come(payload, topics) for payload in _payloads(batch)]
            known = fresh.over(master, payloads)
            yield arrow_records.outgoing_batch([enrich(payload, known) for payload in payloads])


@cache
def _enricher(flow: str) -> Enrich:
    return enricher(load_flow(flow))


@cache
def _master_view(task: EnrichTask) -> MasterView:
    return MasterView(task.kafka, load_flow(task.flow).master_tables, task.master_age_max_s)


@cache
def _fresh_fields(task: EnrichTask) -> FreshFields:
    return FreshFields(load_flow(task.flow), task.postgres_url, task.slow_after_s)


def _payloads(batch: pa.RecordBatch) -> Iterator[Payload]:
    return map(
        Payload,
        arrow_records.positions(batch),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        arrow_records.headers(batch.column("headers")),
        batch.column("arrived_ms").to_pylist(),
    )


def transform(payloads: DataFrame, task: EnrichTask) -> DataFrame:
    columns = ("topic", "partition", "offset", "key", "value", "headers")
    return payloads.selectExpr(*columns, "unix_millis(timestamp) AS arrived_ms").mapInArrow(
        task.run, arrow_records.OUTGOING_DDL
    )


def task(settings: JobSettings) -> EnrichTask:
    return EnrichTask(
        settings.flow,
        settings.kafka,
        settings.master_age_max_s,
        settings.postgres_url.get_secret_value(),
        settings.slow_after_s,
    )


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Say) -> DataStreamWriter:
    job = next(job for job in flow.jobs() if job.name == STAGE)
    payloads = read_topics(spark, settings, job.ignited_by, with_headers=True)
    return write_topics(transform(payloads, task(settings)), settings, STAGE)
