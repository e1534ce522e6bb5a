"""Runs each job's plan on nothing, so that the first real batch is quick.

What it pays for beforehand: Python workers with their imports, generated code, the state store's
native library, the master data of each worker. Nothing is written.
"""

import logging
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

_log = logging.getLogger(__name__)
_NO_RECORDS = f"unhex('{pickle.dumps([]).hex()}') AS packed"
_BATCHES = 3  # the first one makes states, the others find some


class Nothing:
    """Rows that stand for no records, as the plans of jobs start from them."""

    def __init__(self, spark: SparkSession, *, streams: bool = False) -> None:
        """`streams`: Spark finds them in some batches, one after the other."""
        spark.streams.active  # noqa: B018 - its making is what starts the coordinator of state stores
        self._spark = spark
        self._streams = streams

    def buckets(self, *more: str) -> GroupedData:
        rows = self._ids(2).selectExpr("cast(id AS int) AS bucket", _NO_RECORDS, *more)
        return rows.groupBy("bucket")

    def in_all_workers(
        self, task: Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]
    ) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield from task(iter(()))

        slots = self._spark.sparkContext.defaultParallelism  # any of them may get the first batch
        return self._ids(slots).mapInArrow(work, "nothing int")

    def _ids(self, count: int) -> DataFrame:
        """Each in a partition of its own."""
        if not self._streams:
            return self._spark.range(0, count, 1, count)
        self._spark.dataSource.register(_Ids)
        return self._spark.readStream.format(_Ids.name()).option("count", count).load()


def warm_up(plans: Mapping[str, Callable[[], DataFrame]]) -> None:
    """`plans` by the names of their jobs."""
    for job, plan in plans.items():
        try:
            plan().write.format("noop").mode("overwrite").save()
        except Exception as error:  # the query itself will meet it again, and tell
            _say_cold(job, error)


def rehearse(plans: Mapping[str, Callable[[], DataFrame]], modes: Mapping[str, str]) -> None:
    """As queries, of which each has a few batches: whoever stands by has the time for it, and what
    a first query has to load costs the one that takes over three seconds."""
    for job, plan in plans.items():
        folder = Path(tempfile.mkdtemp(prefix="headrace-rehearsal-"))
        query = None
        try:
            writer = plan().writeStream.format("noop").outputMode(modes[job])
            query = writer.option("checkpointLocation", str(folder)).start()
            query.processAllAvailable()
        except Exception as error:
            _say_cold(job, error)
        finally:
            if query is not None:
                query.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _say_cold(job: str, error: Exception) -> None:
    _log.info("%s could not be warmed up: %s", job, str(error).splitlines()[0])


class _Ids(DataSource):
    """Numbers from 0 on, the same in each of its batches."""

    @classmethod
    def name(cls) -> str:
        return "ids_of_nothing"

    def schema(self) -> str:
        return "id bigint"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _IdsReader(int(self.options["count"]))


class _IdsReader(DataSourceStreamReader):
    def __init__(self, count: int) -> None:
        self._count = count

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], _limit: object) -> dict[str, int]:  # noqa: N802
        return {"batch": min(start["batch"] + 1, _BATCHES)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(number) for number in range(self._count)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)

    def commit(self, end: dict[str, int]) -> None:
        pass
