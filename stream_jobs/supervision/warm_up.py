"""Runs each job's plan once on nothing, so that the first real batch is quick.

What it pays for beforehand: Python workers with their imports, generated code, the state store's
native library, the master data of each worker. Nothing is written.
"""

import logging
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession

_log = logging.getLogger(__name__)
_NO_RECORDS = f"unhex('{pickle.dumps([]).hex()}') AS packed"


def warm_up(spark: SparkSession, plans: Mapping[str, Callable[[], DataFrame]]) -> None:
    """`plans` by the names of their jobs."""
    spark.streams.active  # noqa: B018 - its making is what starts the coordinator of state stores
    for job, plan in plans.items():
        try:
            plan().write.format("noop").mode("overwrite").save()
        except Exception as error:  # the query itself will meet it again, and tell
            _log.info("%s could not be warmed up: %s", job, str(error).splitlines()[0])


def in_all_workers(
    spark: SparkSession, task: Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]
) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from task(iter(()))

    slots = spark.sparkContext.defaultParallelism  # any of their workers may get the first batch
    return spark.range(0, slots, 1, slots).mapInArrow(work, "nothing int")


def empty_buckets(spark: SparkSession, *more: str) -> GroupedData:
    rows = spark.range(2).selectExpr("cast(id AS int) AS bucket", _NO_RECORDS, *more)
    return rows.groupBy("bucket")
