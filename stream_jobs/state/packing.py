"""Records on their way through the shuffle: one row is all that a chunk of a log had for a bucket.

Row by row, the way to Python would cost more than the work there.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern

import pyarrow as pa
from confluent_kafka import Message

from shared.events.envelope import Position
from stream_jobs.state.buckets import bucket_of

PACKED_DDL = "bucket int, packed binary"
_PACKED = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])

Packed = tuple[str, int, int, bytes | None, bytes | None]


def pack_by_bucket(
    chunks: Iterable[list[Message]], buckets: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """A row for each bucket of a chunk."""
    for chunk in chunks:
        found: dict[int, list[Packed]] = {bucket: [] for bucket in buckets}
        for message in chunk:
            topic, key = intern(message.topic() or ""), message.key()
            place = topic, message.partition() or 0, message.offset() or 0
            found[bucket_of(key, buckets)].append((*place, key, message.value()))
        yield packed_rows({bucket: own for bucket, own in found.items() if own})


def packed_rows(records: Mapping[int, list[Packed]]) -> pa.RecordBatch:
    packed = [pickle.dumps(own, pickle.HIGHEST_PROTOCOL) for own in records.values()]
    return pa.RecordBatch.from_arrays([list(records), packed], schema=_PACKED)


def unpack(packed: bytes) -> Iterator[tuple[Position, bytes | None, bytes | None]]:
    """Where it stands, key, value."""
    for topic, partition, offset, key, value in pickle.loads(packed):
        yield Position(topic, partition, offset), key, value
