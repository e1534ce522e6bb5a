"""Kafka records in Arrow batches: read as rows of Python values, written from them.

Whole columns are converted at once; cell by cell costs ten times as much.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from shared.envelope import Header, Position
from stream_jobs.enrichment import Outgoing, Payload

HEADERS_DDL = "array<struct<key: string, value: binary>>"
OUTGOING_DDL = f"topic string, key binary, value binary, headers {HEADERS_DDL}"

# of a frame of Kafka's, what `payloads` reads
PAYLOAD_COLUMNS = (
    *("topic", "partition", "offset", "key", "value", "headers"),
    "unix_millis(timestamp) AS arrived_ms",
)

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_OUTGOING = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)


def payloads(batch: pa.RecordBatch) -> Iterator[Payload]:
    return map(
        Payload,
        positions(batch),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        headers(batch.column("headers")),
        batch.column("arrived_ms").to_pylist(),
    )


def positions(batch: pa.RecordBatch) -> Iterator[Position]:
    """Of a batch with the columns topic, partition and offset."""
    return map(
        Position,
        batch.column("topic").to_pylist(),
        batch.column("partition").to_pylist(),
        batch.column("offset").to_pylist(),
    )


def headers(column: pa.ListArray) -> Iterator[list[Header]]:
    """A null list reads as no headers. A null value (Kafka allows it) reads as empty."""
    flat = column.flatten()
    pairs = list(
        zip(
            flat.field("key").to_pylist(),
            (value or b"" for value in flat.field("value").to_pylist()),
            strict=True,
        )
    )
    start = 0
    for length in column.value_lengths().to_pylist():
        end = start + (length or 0)
        yield pairs[start:end]
        start = end


def outgoing_batch(records: Sequence[Outgoing]) -> pa.RecordBatch:
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record.headers))
    flat = list(chain.from_iterable(record.headers for record in records))
    header_values = pa.StructArray.from_arrays(
        [
            pa.array([key for key, _ in flat], pa.string()),
            pa.array([value for _, value in flat], pa.binary()),
        ],
        fields=list(_HEADER),
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.topic for record in records], pa.string()),
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            pa.ListArray.from_arrays(pa.array(ends, pa.int32()), header_values),
        ],
        schema=_OUTGOING,
    )
