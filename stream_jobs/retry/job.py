"""The lane of enrich -> event topics, each entity in its order; see `waiting/protocol.py`.

What waits is kept by a hash bucket of its entity. A wake (`waker.py`) goes to all of them, with the
rows of master data that have come: a payload may wait for a row of any key. Each bucket that was
served tells when its next look is due, by which the waker knows when to wake it.
"""

import logging
import pickle
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import payload_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, Payload
from shared.consumer_groups import of_job
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.settings import JobSettings
from shared.topic_names import retry_topic
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import checkpoint_of, names_in
from stream_jobs.kafka_io.log_source import SELDOM_MS, read_logs, written_by_its_work
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.kafka_io.writing_processor import WritingProcessor
from stream_jobs.retry.lines import STAGE, TOLD_DDL, BucketOfLines
from stream_jobs.retry.task import RetryTask
from stream_jobs.state.buckets import bucket_of
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.warm_up import Nothing
from stream_jobs.waiting import codec
from stream_jobs.waiting.gate_view import first_needed
from stream_jobs.waiting.protocol import ENRICH

_log = logging.getLogger(__name__)
# all of them are told of each row that comes: few. Fixed for the life of a checkpoint
BUCKETS = range(16)
# what a batch observes: how many of them have told of their next look, and the first of these
LOOKS, LOOK_MS = "looks", "look_ms"
# of the jobs that have no task running Spark serves the first by name. By its own name this one, of
# little work, would starve behind all others for as long as they have a backlog
_POOL = "0-retry"
_PACKED_DDL = "bucket int, packed binary, woken binary"
_PACKED = pa.schema([("bucket", pa.int32()), ("packed", pa.binary()), ("woken", pa.binary())])


def pack(chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    """Records of the lane and wakes -> for each bucket a row with its records, and, if it is woken,
    one with the rows that have come."""
    lane = retry_topic(ENRICH)
    for chunk in chunks:
        records: dict[int, list[Payload]] = {}
        wakes: list[bytes | None] = []
        for message in chunk:
            if message.topic() == lane:
                bucket = bucket_of(message.key(), BUCKETS)
                records.setdefault(bucket, []).append(payload_of(message))
            else:
                wakes.append(message.value())
        names, packed = list(records), [_packed(own) for own in records.values()]
        to_wake = list(BUCKETS) if wakes else []
        woken = orjson.dumps(sorted({row for wake in wakes for row in codec.rows_of_wake(wake)}))
        columns = [
            names + to_wake,
            packed + [None] * len(to_wake),
            [None] * len(names) + [woken] * len(to_wake),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_PACKED)


def _packed(own: Sequence[Payload]) -> bytes:
    return pickle.dumps([tuple(payload) for payload in own], pickle.HIGHEST_PROTOCOL)


def transform(packed: GroupedData, settings: JobSettings) -> DataFrame:
    return packed.transformWithState(
        WritingProcessor(BucketOfLines(task(settings)), WriterOf.job_of(STAGE, settings)),
        TOLD_DDL,
        outputMode="update",
        # for the batch's time, which is the same where it runs again
        timeMode="processingTime",
    )


def on_nothing(nothing: Nothing, settings: JobSettings) -> DataFrame:
    return transform(nothing.buckets("cast(NULL AS binary) AS woken"), settings)


def task(settings: JobSettings) -> RetryTask:
    return RetryTask(
        settings.flow,
        settings.kafka,
        settings.master_age_max_s,
        settings.postgres_url.get_secret_value(),
        settings.slow_after_s,
        settings.parked_after_s,
        settings.when_parked,
        settings.master_stale_after_s,
        settings.waiting_per_entity_max,
        settings.registry,
    )


def _observed() -> list[Column]:
    """What is observed of each batch: when to look again, and the lane's numbers."""
    return [
        functions.expr(f"count(*) AS {LOOKS}"),
        functions.expr(f"min(look_ms) AS {LOOK_MS}"),
        functions.expr("sum(woken) AS woken"),
        functions.expr("sum(parked) AS parked"),
    ]


def start(settings: JobSettings) -> Offsets | None:
    """Where a query begins whose checkpoint is lost, or does not fit: with what is not done with of
    the lane."""
    checkpoint = checkpoint_of(settings, STAGE)
    identity = checkpoint_identity.identity(settings, {})
    why = checkpoint_identity.why_not(checkpoint, identity)
    if why is None:
        return None
    job = load_flow(settings.flow).job(STAGE)
    group = LogOffsets(settings.kafka, of_job(STAGE), job.ignited_by)
    try:
        passed, ranges = group.committed().offsets, group.ranges()
    finally:
        group.close()
    needed = first_needed(settings.kafka)
    offsets: Offsets = {}
    for (topic, partition), its in ranges.items():
        if topic == retry_topic(ENRICH):
            at = passed[topic][partition]
            at = max(its.start, min(at, needed.get(partition, at)))
        else:
            at = its.end
        offsets.setdefault(topic, {})[partition] = at
    if names_in(checkpoint):
        _log.info("retry begins with what waits in its lane: %s", why)
    checkpoint_identity.begin_anew(checkpoint, identity)
    return offsets


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Report) -> DataStreamWriter:
    job = flow.job(STAGE)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    packed = read_logs(
        spark,
        settings,
        STAGE,
        job.ignited_by,
        pack,
        _PACKED_DDL,
        start(settings),
        # an entity that sends while it waits would have a batch follow the other
        at_most_every_ms=SELDOM_MS,
    )
    told = transform(packed.groupBy("bucket"), settings).observe(STAGE, *_observed())
    return written_by_its_work(told, settings, STAGE)
