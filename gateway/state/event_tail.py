"""The events that fold has not published a snapshot of yet, by their key. Pure but for a lock."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from clients.kafka.records import Partition
from shared.events.envelope import Position

_OVERHEAD_BYTES = 350  # of a record, beside its bytes
_LOG_BYTES = 1100  # of what keeps a key's records of one log
_AT_ONCE = 200  # are forgotten, then others may run


class TailRecord(NamedTuple):
    position: Position
    value: bytes
    timestamp_ms: int


class Tail:
    """Written by one thread, read by another."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()
        self._by_key: dict[bytes, dict[Partition, deque[TailRecord]]] = {}
        self._logs: dict[Partition, deque[tuple[bytes, TailRecord]]] = {}

    def put(self, key: bytes, record: TailRecord) -> None:
        log = record.position.topic, record.position.partition
        with self._lock:
            own = self._by_key.setdefault(key, {})
            if log not in own:
                own[log] = deque()
                self.bytes += _LOG_BYTES
            own[log].append(record)
            self._logs.setdefault(log, deque()).append((key, record))
            self.bytes += _size(key, record)

    def of(self, key: bytes) -> list[TailRecord]:
        with self._lock:
            return [*chain.from_iterable(self._by_key.get(key, {}).values())]

    def forget_before(self, starts: Mapping[Partition, int]) -> None:
        for log, start in starts.items():
            while self._forget_some(log, start):
                time.sleep(0)

    def _forget_some(self, log: Partition, start: int) -> bool:
        """Whether there may be more."""
        records = self._logs.get(log)
        with self._lock:
            for _ in range(_AT_ONCE):
                if not records or records[0][1].position.offset >= start:
                    return False
                key, record = records.popleft()
                own = self._by_key[key]
                own[log].popleft()  # of a key, too, a log's first record is the oldest
                if not own[log]:
                    del own[log]
                    self.bytes -= _LOG_BYTES
                if not own:
                    del self._by_key[key]
                self.bytes -= _size(key, record)
        return True

    def clear(self) -> None:
        with self._lock:
            self._by_key.clear()
            self._logs.clear()
            self.bytes = 0


def _size(key: bytes, record: TailRecord) -> int:
    return len(key) + len(record.value) + _OVERHEAD_BYTES
