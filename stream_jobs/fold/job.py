"""event topics -> state topics: folds each entity's events onto its snapshot.

What a change emits goes to its event topic with it.
"""

from functools import partial

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.flow_table import Flow
from shared.settings import JobSettings
from stream_jobs.fold import clock_counts, rebuild
from stream_jobs.fold.bucket_fold import BucketFold
from stream_jobs.fold.rebuild import STAGE
from stream_jobs.kafka_io.log_source import read_logs, read_logs_up_to, written_by_its_work
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.kafka_io.writing_processor import WritingProcessor
from stream_jobs.state.buckets import PACKED_DDL, buckets_of, pack_by_bucket
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.warm_up import Nothing

# of a partition: a batch's records of one are in memory at once, and each costs some calls a batch
_BUCKETS = 8


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
        WritingProcessor(fold, WriterOf.job_of(STAGE, settings)),
        clock_counts.TOLD_DDL,
        outputMode="update",
        timeMode="none",
        initialState=published,
    )


def on_nothing(nothing: Nothing, settings: JobSettings) -> DataFrame:
    return transform(nothing.buckets(), settings)


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Report) -> DataStreamWriter:
    start = rebuild.start(settings, flow, say)
    starting = start.offsets if start else None
    pack = partial(pack_by_bucket, buckets=buckets_of(settings.state_partitions, _BUCKETS))
    events = read_logs(spark, settings, STAGE, flow.fold_reads, pack, PACKED_DDL, starting)
    published = None
    if start and start.snapshots:
        records = read_logs_up_to(spark, settings, STAGE, start.snapshots, pack, PACKED_DDL)
        published = records.groupBy("bucket")
    states = transform(events.groupBy("bucket"), settings, published, start)
    told = states.observe(STAGE, *clock_counts.observed())
    return written_by_its_work(told, settings, STAGE)
