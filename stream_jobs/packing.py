"""Records on their way through the shuffle: one row is all that an Arrow batch had for a bucket.

Entities are grouped by a hash bucket of their id, many a call. Row by row, the way to Python would
cost more than the work there.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from shared.envelope import Position
from stream_jobs import arrow_records

_PACKED_DDL = "bucket int, packed binary"
_PACKED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def group_by_bucket(records: DataFrame, buckets: int) -> GroupedData:
    bucket = F.pmod(F.xxhash64("key"), F.lit(buckets)).cast("int").alias("bucket")
    packed = records.select(bucket, *_PACKED.names).mapInArrow(pack_by_bucket, _PACKED_DDL)
    return packed.groupBy("bucket")


def pack_by_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of (bucket, record) -> a row of (bucket, all its records) for each bucket of a batch."""
    for batch in batches:
        buckets = batch.column("bucket").to_numpy()
        order = np.argsort(buckets, kind="stable")
        records = batch.select(_PACKED.names).take(pa.array(order)).cast(_PACKED)
        names, starts = np.unique(buckets[order], return_index=True)
        ends = [*starts[1:].tolist(), len(buckets)]
        slices = [
            records.slice(start, end - start).serialize().to_pybytes()
            for start, end in zip(starts.tolist(), ends, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(names, pa.int32()), pa.array(slices, pa.binary())], ["bucket", "packed"]
        )


def unpack(packed: bytes) -> Iterator[tuple[Position, bytes | None, bytes | None]]:
    """Where it stands, key, value."""
    batch = pa.ipc.read_record_batch(pa.py_buffer(packed), _PACKED)
    return zip(
        arrow_records.positions(batch),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        strict=True,
    )
