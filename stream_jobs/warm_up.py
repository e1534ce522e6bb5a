"""Runs each job's plan once on nothing, so that the first real batch is quick.

What it pays for beforehand: Python workers with their imports, generated code, the state store's
native library, the master data of each worker. Nothing is written.
"""

import logging
import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession

from shared.settings import JobSettings
from stream_jobs.aggregate import job as aggregate
from stream_jobs.enrich import job as enrich
from stream_jobs.fold import job as fold
from stream_jobs.retry import job as retry

_log = logging.getLogger(__name__)
_NO_RECORDS = f"unhex('{pickle.dumps([]).hex()}') AS packed"


def warm_up(spark: SparkSession, settings: JobSettings, names: list[str]) -> None:
    spark.streams.active  # noqa: B018 - its making is what starts the coordinator of state stores
    if "enrich" in names:
        _run(_on_nothing(spark, enrich.task(settings)), "enrich")
    if "retry" in names:
        _run(retry.transform(_buckets(spark, "cast(NULL AS binary) AS woken"), settings), "retry")
    if "fold" in names:
        _run(fold.transform(_buckets(spark), settings), "fold")
    if "aggregate" in names:
        _run(aggregate.transform(_buckets(spark), settings, versions_before=0), "aggregate")


def _on_nothing(spark: SparkSession, task: enrich.EnrichTask) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from task(iter(()))

    slots = spark.sparkContext.defaultParallelism  # any of their workers may get the first batch
    return spark.range(0, slots, 1, slots).mapInArrow(work, "nothing int")


def _buckets(spark: SparkSession, *more: str) -> GroupedData:
    rows = spark.range(2).selectExpr("cast(id AS int) AS bucket", _NO_RECORDS, *more)
    return rows.groupBy("bucket")


def _run(frame: DataFrame, job: str) -> None:
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:  # the query itself will meet it again, and tell
        _log.info("%s could not be warmed up: %s", job, str(error).splitlines()[0])
