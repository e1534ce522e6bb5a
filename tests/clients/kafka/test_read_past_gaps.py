"""Of a compacted log some records are gone: what is read in their place may be wanted itself."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from clients.kafka import read_at
from clients.kafka.read_at import RecordsAt
from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess

TOPIC = "state.gaps.v1"
THERE = (3, 11, 12, 900)


class _Message:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def __getattr__(self, name: str) -> Any:
        told = {"topic": TOPIC, "partition": 0, "key": b"k", "value": b"v", "timestamp": (1, 5)}
        return lambda: told.get(name)


class _Log:
    def __init__(self) -> None:
        self._left: list[int] = []

    def list_topics(self, topic: str, _timeout_s: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def assign(self, places: list[TopicPartition]) -> None:
        self._left = [offset for offset in THERE if offset >= places[0].offset]

    def poll(self, _timeout_s: float) -> _Message:
        return _Message(self._left.pop(0))

    def unassign(self) -> None: ...


def test_what_is_there_is_found_behind_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_at, "reader", lambda *_: _Log())
    origins = RecordsAt(KafkaAccess(bootstrap="nobody:1"), "headrace-tail")
    wanted = [Position(TOPIC, 0, offset) for offset in (3, 4, 11, 12, 899, 900)]
    assert [at.offset for at in origins.read(wanted)] == [*THERE]
