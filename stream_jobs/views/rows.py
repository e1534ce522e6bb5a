"""Rows of a view -> records of its topic: the key as JSON of its columns, all of them as the value.

A row's version is the cut of its batch: it is what the view says of the log up to that time, and no
other batch says it of more.
"""

from collections.abc import Iterator

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from shared.folding.snapshot import META
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.views.query import Query

_AS_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_WRITTEN = pa.schema([("written", pa.int64())])


class RowWriter:
    """What a worker process needs to know."""

    def __init__(self, writer: WriterOf, topic: str, cut_ms: int) -> None:
        self._writer_of = writer
        self._topic = topic
        self._cut_ms = cut_ms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        end = b',"%s":%s}' % (META.encode(), orjson.dumps({"version": self._cut_ms}))
        written = 0
        writer = self._writer_of()
        with writer.or_nothing():
            for batch in batches:
                keys, values = map(pa.Array.to_pylist, batch.columns)
                versioned = (value[:-1] + end for value in values)
                writer.send_all(self._topic, zip(keys, versioned, strict=True))
                written += batch.num_rows
            writer.flush()
        yield pa.RecordBatch.from_pydict({"written": [written]}, _WRITTEN)


def as_json(query: Query, rows: DataFrame) -> DataFrame:
    return rows.select(
        f.to_json(f.struct(*query.key), _AS_JSON).cast("binary").alias("key"),
        f.to_json(f.struct(*rows.columns), _AS_JSON).cast("binary").alias("value"),
    )


def write(rows: DataFrame, writer: RowWriter) -> None:
    rows.mapInArrow(writer, "written long").collect()
