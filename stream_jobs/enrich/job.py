"""ingest topics -> event topics; what cannot be an event goes to the lanes.

What comes again comes on a topic of its own, and is taken as what it was when it first came.

Stateless: a batch that is run again writes its records again, under the same ids and origins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from confluent_kafka import Message
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import payload_of
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.kafka_access import KafkaAccess
from shared.lookups import HttpLookup
from shared.retry_policy import WhenParked
from shared.settings import JobSettings
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.enrich_payload import STAGE, Enrich, as_first_come, enricher
from stream_jobs.enrich.entity_gate import EntityGate
from stream_jobs.enrich.master_data_view import MasterView
from stream_jobs.enrich.on_demand_fields import FreshFields
from stream_jobs.enrich.state_look_up import StateLookUp
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.counted_rows import NOTHING_DDL
from stream_jobs.kafka_io.log_source import read_logs, written_by_its_work
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.warm_up import Nothing
from stream_jobs.waiting.gate_view import GateView
from stream_jobs.waiting.limits import Caps, WaitLimits
from stream_jobs.waiting.line_key import KeyOf, key_of_line
from stream_jobs.waiting.protocol import Gates

# how Spark tells a task what it is part of
_BATCH_ID, _RUN_ID = "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass(frozen=True)
class EnrichTask:
    """What a worker process needs to know; it builds the rest once and keeps it."""

    flow: str
    kafka: KafkaAccess
    master_age_max_s: float
    postgres_url: str
    slow_after_s: float
    when_parked: WhenParked
    caps: Caps
    writer: WriterOf
    registry: HttpLookup | None

    def __call__(self, chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        if load_flow(self.flow).waits:
            enrich = EntityGate(
                _enricher(self),
                _gates(self),
                self.when_parked,
                _limits(self.caps),
                _key_of(self.flow),
            )
        else:  # nothing is waited for, and no job would take it from the lane
            enrich = EntityGate(_enricher(self), Gates(), "go_on")
        master, states = _master_view(self), _states(self)
        fresh, answers = _fresh_fields(self), _answers(self)
        topics = load_flow(self.flow).ingest_topics
        writer = self.writer()
        with writer.or_nothing():
            for chunk in chunks:
                check_lease(STAGE)
                master.refresh()
                states.refresh()
                read = [payload_of(message) for message in chunk]
                payloads = [as_first_come(payload, topics) for payload in read]
                known = fresh.over(master, payloads)
                answers.look_ahead(_enricher(self), payloads, known)
                for payload, as_read in zip(payloads, read, strict=True):
                    for outgoing in enrich(payload, as_read.position, known):
                        writer.send(outgoing)
            writer.flush()
        yield from ()


@cache
def _enricher(task: EnrichTask) -> Enrich:
    return enricher(load_flow(task.flow), _states(task).find, _answers(task).find)


@cache
def _answers(task: EnrichTask) -> Answers:
    # retry waits for what comes of a probe, and nobody else's payloads do
    return Answers(load_flow(task.flow), task.registry, probes_aside=True)


@cache
def _states(task: EnrichTask) -> StateLookUp:
    flow = load_flow(task.flow)
    return StateLookUp(task.kafka, flow.looked_at, at_once=any(e.states for e in flow.endpoints))


@cache
def _key_of(flow: str) -> KeyOf:
    return key_of_line(load_flow(flow))


def _gates(task: EnrichTask) -> Gates:
    """As they were when the micro-batch's first task came to this process, or lately: what the one
    before sent to the lane is in them, and what a task itself sends there, it knows."""
    context, view = TaskContext.get(), _gate_view(task)
    batch = context.getLocalProperty(_BATCH_ID) if context else None
    run = context.getLocalProperty(_RUN_ID) if context else None
    return view.of_batch(f"{run}/{batch}") if batch else view.refresh()


@cache
def _gate_view(task: EnrichTask) -> GateView:
    return GateView(task.kafka)


_limits = cache(WaitLimits)


@cache
def _master_view(task: EnrichTask) -> MasterView:
    flow = load_flow(task.flow)
    return MasterView(task.kafka, flow.master_tables, task.master_age_max_s, flow.timed_tables)


@cache
def _fresh_fields(task: EnrichTask) -> FreshFields:
    return FreshFields(load_flow(task.flow), task.postgres_url, task.slow_after_s)


def task(settings: JobSettings) -> EnrichTask:
    return EnrichTask(
        settings.flow,
        settings.kafka,
        settings.master_age_max_s,
        settings.postgres_url.get_secret_value(),
        settings.slow_after_s,
        settings.when_parked,
        Caps.of(settings),
        WriterOf.job_of(STAGE, settings),
        settings.registry,
    )


def on_nothing(nothing: Nothing, settings: JobSettings) -> DataFrame:
    return nothing.in_all_workers(task(settings))


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Report) -> DataStreamWriter:
    job = flow.job(STAGE)
    nothing = read_logs(
        spark, settings, STAGE, job.ignited_by, task(settings), NOTHING_DDL, may_stay=True
    )
    return written_by_its_work(nothing, settings, STAGE)
