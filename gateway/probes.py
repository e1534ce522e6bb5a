"""Looks at what the gateway depends on. These calls block: they run in threads, with bounds."""

import time
from collections.abc import Collection
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.kafka_offsets import QUIET, Partition, end_offsets, start_offsets

_KAFKA_ANSWER_S = 1.0
_POSTGRES_ANSWER_S = 2  # libpq counts whole seconds and takes less than 2 for 2


class Seen(NamedTuple):
    """What a look at a server has found."""

    works: bool
    took_ms: float
    output: str = ""


class KafkaSeen(NamedTuple):
    server: Seen
    missing_topics: tuple[str, ...] = ()
    lane_records: dict[str, int] = {}  # noqa: RUF012 - never changed


class KafkaProbe:
    def __init__(self, bootstrap: str, topics: Collection[str], lanes: Collection[str]) -> None:
        self._topics = topics
        self._lanes = lanes
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "logger": QUIET,
            "socket.timeout.ms": 2000,
            "reconnect.backoff.max.ms": 1000,
        }
        self._admin = AdminClient(options)

    def look(self) -> KafkaSeen:
        begun_s = time.monotonic()
        try:
            partitions = {
                name: list(topic.partitions)
                for name, topic in self._admin.list_topics(timeout=_KAFKA_ANSWER_S).topics.items()
            }
            lanes = [(t, p) for t in self._lanes for p in partitions.get(t, ())]
            records = self._records(lanes)
        except (KafkaException, TimeoutError):
            return KafkaSeen(Seen(False, _ms_since(begun_s), "Kafka does not answer"))
        missing = tuple(topic for topic in self._topics if topic not in partitions)
        return KafkaSeen(Seen(True, _ms_since(begun_s)), missing, records)

    def _records(self, partitions: list[Partition]) -> dict[str, int]:
        ends = end_offsets(self._admin, partitions, _KAFKA_ANSWER_S)
        starts = start_offsets(self._admin, partitions, _KAFKA_ANSWER_S)
        records: dict[str, int] = {}
        for at, end in ends.items():
            records[at[0]] = records.get(at[0], 0) + end - starts[at]
        return records


def look_at_postgres(url: str) -> Seen:
    begun_s = time.monotonic()
    try:
        psycopg.connect(url, connect_timeout=_POSTGRES_ANSWER_S, autocommit=True).close()
    except psycopg.Error:
        # its message may hold the address and the user: that is for the log of PostgreSQL
        return Seen(False, _ms_since(begun_s), "PostgreSQL does not answer")
    return Seen(True, _ms_since(begun_s))


def _ms_since(begun_s: float) -> float:
    return round((time.monotonic() - begun_s) * 1000, 1)
