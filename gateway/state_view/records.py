"""The view's rows, and what a batch of records changes of them. Pure."""

from typing import NamedTuple
from zlib import crc32

from clients.kafka.records import Partition


class Row(NamedTuple):
    topic: str
    key: bytes
    value: bytes
    version: int | None
    timestamp_ms: int
    partition: int
    offset: int


class DamagedError(Exception):
    """A row is not what was written: SQLite itself does not see that."""


def checksum(key: bytes, value: bytes, *numbers: int | None) -> int:
    return crc32(b" ".join((key, value, *(b"%d" % (number or 0) for number in numbers))))


class Changes:
    """What a batch of records comes to: per key the last one counts."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, bytes], Row] = {}
        self.deleted: set[tuple[str, bytes]] = set()
        self.positions: dict[Partition, int] = {}
        self.skipped: dict[str, int] = {}

    def put(self, row: Row) -> None:
        earlier = self.rows.get((row.topic, row.key))
        if earlier is None or (row.version or 0) >= (earlier.version or 0):
            self.rows[row.topic, row.key] = row

    def delete(self, topic: str, key: bytes) -> None:
        self.rows.pop((topic, key), None)
        self.deleted.add((topic, key))

    def skip(self, topic: str) -> None:
        self.skipped[topic] = self.skipped.get(topic, 0) + 1
