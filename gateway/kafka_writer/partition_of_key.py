"""Which partition a key's records go to, as all who write do it."""

from aiokafka.partitioner import murmur2


def partition_of(key: bytes, count: int) -> int:
    return int(murmur2(key) & 0x7FFFFFFF) % count
