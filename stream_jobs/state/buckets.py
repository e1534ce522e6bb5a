"""Entities are grouped by buckets on their way to Spark's state: many a call.

Spark puts a bucket into a partition by a hash of its number. They are numbered so that each
partition has as many of them: of those from 0 to 63, one of two partitions would have 37, and one
of three would have 32.

Through the shuffle goes one row for all that a chunk of a log had for a bucket: row by row, the way
to Python would cost more than the work there.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice
from sys import intern
from zlib import crc32

import pyarrow as pa
from confluent_kafka import Message

from shared.events.envelope import Position

PACKED_DDL = "bucket int, packed binary"
_PACKED = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])

Packed = tuple[str, int, int, bytes | None, bytes | None]
_SEED = 42
_WORD = 0xFFFFFFFF


@cache
def buckets_of(partitions: int, each: int) -> tuple[int, ...]:
    """Their numbers, `each` partition's: fixed for the life of a checkpoint."""
    return tuple(
        bucket
        for partition in range(partitions)
        for bucket in islice((n for n in count() if partition_of(n, partitions) == partition), each)
    )


def bucket_of(key: bytes | None, buckets: Sequence[int]) -> int:
    return buckets[crc32(key or b"") % len(buckets)]


def partition_of(bucket: int, partitions: int) -> int:
    """As Spark does it: by MurmurHash3 of an int, with a sign."""
    found = _rotated(bucket * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    found = _rotated(_SEED ^ found, 13) * 5 + 0xE6546B64 & _WORD
    found ^= 4  # bytes
    found = (found ^ found >> 16) * 0x85EBCA6B & _WORD
    found = (found ^ found >> 13) * 0xC2B2AE35 & _WORD
    found ^= found >> 16
    return (found - (found >> 31 << 32)) % partitions


def _rotated(word: int, bits: int) -> int:
    return word << bits & _WORD | word >> 32 - bits


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
