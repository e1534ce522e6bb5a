"""The events that fold has not published a snapshot of yet, by their key. Pure but for a lock."""

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from gateway.kafka_offsets import Partition
from shared.envelope import Position

_OVERHEAD_BYTES = 300  # of a record, beside its bytes


class TailRecord(NamedTuple):
    position: Position
    value: bytes
    timestamp_ms: int


class Tail:
    """Written by one thread, read by another."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()
        self._by_key: dict[bytes, list[TailRecord]] = {}
        self._logs: dict[Partition, deque[tuple[bytes, TailRecord]]] = {}

    def put(self, key: bytes, record: TailRecord) -> None:
        log = record.position.topic, record.position.partition
        with self._lock:
            self._by_key.setdefault(key, []).append(record)
            self._logs.setdefault(log, deque()).append((key, record))
            self.bytes += _size(key, record)

    def of(self, key: bytes) -> list[TailRecord]:
        with self._lock:
            return [*self._by_key.get(key, ())]

    def forget_before(self, starts: Mapping[Partition, int]) -> None:
        for log, start in starts.items():
            records = self._logs.get(log)
            while records and records[0][1].position.offset < start:
                with self._lock:
                    key, record = records.popleft()
                    own = self._by_key[key]
                    own.remove(record)
                    if not own:
                        del self._by_key[key]
                    self.bytes -= _size(key, record)

    def clear(self) -> None:
        with self._lock:
            self._by_key.clear()
            self._logs.clear()
            self.bytes = 0


def _size(key: bytes, record: TailRecord) -> int:
    return len(key) + len(record.value) + _OVERHEAD_BYTES
