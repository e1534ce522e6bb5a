"""Kafka's logs as a source of Spark's, and topics as its sink.

Spark plans which records are a batch's, remembers it, and has a batch that failed run again. The
records themselves go from the broker to the Python worker that works on them, and from there to the
broker: on their way through the JVM each would take four forms, which costs several times as much
as what is done with it.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, by_topic
from shared.consumer_groups import of_job
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.kafka_io.counted_rows import Work, a_row_for_each_record, real_rows
from stream_jobs.kafka_io.cut_reader import CutReader
from stream_jobs.kafka_io.log_ranges import ranges, shared_out
from stream_jobs.kafka_io.log_reader import LogReader, RangesReader, Source, Task
from stream_jobs.kafka_io.log_rows import LogRows

# of a job behind the states: of a machine that is busy it leaves more to those before them
SELDOM_MS = 500


def read_logs(
    spark: SparkSession,
    settings: JobSettings,
    job: str,
    topics: Iterable[str],
    work: Work,
    ddl: str,
    begins_at: Offsets | None = None,
    *,
    at_most_every_ms: int = 0,
    may_stay: bool = False,
) -> DataFrame:
    """What `work` yields for the records of these topics, of which the first column is never null.
    What needs no state may be done where they come, without a batch for each few of them."""
    source = replace(
        _source(settings, job, topics, partial(a_row_for_each_record, work), begins_at),
        looks_every_s=settings.trigger_ms / 1000,
        at_most_every_s=at_most_every_ms / 1000,
        wakes=_wakes(spark, settings),
        stays_s=settings.stays_s if may_stay and _has_room(spark, settings) else 0.0,
    )
    logs = _register(spark, f"logs_of_{job}", ddl, LogReader(source))
    return spark.readStream.format(logs).load().where(real_rows(ddl))


def read_logs_by_time(
    spark: SparkSession,
    settings: JobSettings,
    job: str,
    topics: Iterable[str],
    work: LogRows,
    *,
    called: str,
    at_most_every_ms: int = 0,
) -> DataFrame:
    """Their records as rows, in batches that each end at a time of the log: see `cut_reader.py`.
    `called`: apart from what else the job reads."""
    source = replace(
        _source(settings, job, topics, work),
        checkpoint=checkpoint_of(settings, job) / "logs" / called,
        looks_every_s=settings.trigger_ms / 1000,
        at_most_every_s=at_most_every_ms / 1000,
    )
    logs = _register(spark, f"logs_of_{job}_{called}", work.ddl, CutReader(source))
    return spark.readStream.format(logs).load()


def read_logs_up_to(
    spark: SparkSession,
    settings: JobSettings,
    job: str,
    ends: Offsets,
    work: Work,
    ddl: str,
    begins: Offsets | None = None,
) -> DataFrame:
    """Reads all that stands on these topics before these offsets."""
    source = _source(settings, job, ends, work)
    if begins is None:
        with LogOffsets(settings.kafka, of_job(job), ends) as log:
            begins = by_topic(log.begins())
    its = ranges(begins, ends)
    tasks = [Task(own) for own in shared_out(its, source.tasks_max)]
    logs = _register(spark, f"logs_of_{job}_so_far", ddl, RangesReader(source, tasks))
    return spark.read.format(logs).load()


def _source(
    settings: JobSettings,
    job: str,
    topics: Iterable[str],
    work: Work,
    begins_at: Offsets | None = None,
) -> Source:
    return Source(
        job,
        settings.kafka,
        tuple(topics),
        begins_at,
        checkpoint_of(settings, job),
        settings.batch_records_max,
        settings.state_partitions,
        cloudpickle.dumps(work),  # type: ignore[no-untyped-call]
    )


def _wakes(spark: SparkSession, settings: JobSettings) -> Path | None:
    """The file by which the jobs in this process wake each other; on several machines none sees
    what another touches."""
    if settings.on_cluster:
        return None
    return settings.state_dir.absolute() / "spark" / f"{spark.sparkContext.appName}.wakes"


def _has_room(spark: SparkSession, settings: JobSettings) -> bool:
    """For a task that stays, beside those of the other jobs. What it has done it notes where the
    driver looks, each few milliseconds."""
    slots = spark.sparkContext.defaultParallelism
    is_here = not settings.on_cluster and settings.checkpoint_store is None
    return is_here and slots > settings.state_partitions


def _register(
    spark: SparkSession, its_name: str, ddl: str, its_reader: LogReader | RangesReader
) -> str:
    class Logs(DataSource):
        """The source, with all that it needs: it goes by value to the processes that Spark starts
        for it."""

        @classmethod
        def name(cls) -> str:
            return its_name

        def schema(self) -> str:
            return ddl

        def reader(self, schema: object) -> Any:  # noqa: ARG002
            return its_reader

        def streamReader(self, schema: object) -> Any:  # noqa: ARG002, N802
            return its_reader

    spark.dataSource.register(Logs)
    return its_name


def written_by_its_work(frame: DataFrame, settings: JobSettings, job: str) -> DataStreamWriter:
    """The work has written what there is to write: no row that is left goes anywhere."""
    return (
        frame.writeStream.format("noop")
        .queryName(job)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint_of(settings, job)))
    )
