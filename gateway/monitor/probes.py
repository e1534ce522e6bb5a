"""Looks at what the gateway depends on. These calls block: they run in threads, with bounds."""

import socket
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import psycopg
from confluent_kafka import KafkaError, KafkaException
from psycopg.conninfo import conninfo_to_dict

from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from shared.consumer_groups import GATEWAY
from shared.kafka_access import KafkaAccess

# Kafka's own topic, by which the jobs know where they go on
JOBS_POSITIONS = "__consumer_offsets"
_KAFKA_ANSWER_S = 1.0
_POSTGRES_ANSWER_S = 2  # libpq counts whole seconds and takes less than 2 for 2

# a server that one cannot reach looks the same, and is mended elsewhere; the client's own words
# hold its address
_REFUSALS = {
    KafkaError._AUTHENTICATION: "Kafka refuses the gateway's login",
    KafkaError._SSL: "Kafka and the gateway do not agree on TLS or its certificates",
}
_CONNECT_S = 1.0


class Seen(NamedTuple):
    works: bool
    took_ms: float
    output: str = ""


class KafkaSeen(NamedTuple):
    server: Seen
    missing_topics: tuple[str, ...] = ()
    lane_records: dict[str, int] = {}  # noqa: RUF012 - never changed
    # of each partition: its replicas, and those in sync
    partitions: dict[str, dict[int, tuple[int, int]]] = {}  # noqa: RUF012
    lane_written: dict[str, int] = {}  # noqa: RUF012 - ever, also what was deleted since


class KafkaProbe:
    def __init__(self, kafka: KafkaAccess, topics: Collection[str], lanes: Collection[str]) -> None:
        self._refusal = ""
        self._topics = topics
        self._looked_at = {*topics, JOBS_POSITIONS}
        self._lanes = lanes
        self._addresses = kafka.bootstrap.split(",")
        options = {**ANSWERS_SOON, "error_cb": self._note}
        self._log = LogOffsets(kafka, GATEWAY, lanes, _KAFKA_ANSWER_S, options)

    def look(self) -> KafkaSeen:
        begun_s = time.monotonic()
        try:
            topics = self._log.metadata()
            lanes = [(t, p) for t in self._lanes if t in topics for p in topics[t].partitions]
            ranges = self._log.ranges(lanes)
        except KafkaException:
            self._refusal = ""
            self._log.hear_errors()
            output = self._refusal or _why_silent("Kafka", self._addresses)
            return KafkaSeen(Seen(False, _ms_since(begun_s), output))
        missing = tuple(topic for topic in self._topics if topic not in topics)
        records: dict[str, int] = {}
        written: dict[str, int] = {}
        for (topic, _), (start, end) in ranges.items():
            records[topic] = records.get(topic, 0) + end - start
            written[topic] = written.get(topic, 0) + end
        partitions = {
            name: {p: (len(its.replicas), len(its.isrs)) for p, its in topic.partitions.items()}
            for name, topic in topics.items()
            if name in self._looked_at
        }
        return KafkaSeen(Seen(True, _ms_since(begun_s)), missing, records, partitions, written)

    def _note(self, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self._refusal = _REFUSALS[error.code()]


def look_at_postgres(url: str) -> Seen:
    begun_s = time.monotonic()
    try:
        psycopg.connect(url, connect_timeout=_POSTGRES_ANSWER_S, autocommit=True).close()
    except psycopg.Error:
        # its message may hold the address and the user: that is for the log of PostgreSQL
        why = _why_silent("PostgreSQL", _addresses_in(url))
        return Seen(False, _ms_since(begun_s), why)
    return Seen(True, _ms_since(begun_s))


def _addresses_in(url: str) -> list[str]:
    try:
        told = conninfo_to_dict(url)
    except psycopg.Error:  # it is none
        return []
    hosts = str(told.get("host") or "").split(",")
    ports = str(told.get("port") or "5432").split(",")
    return [f"{host}:{ports[min(n, len(ports) - 1)]}" for n, host in enumerate(hosts)]


def _why_silent(server: str, addresses: Sequence[str]) -> str:
    """One that is not up is told from one that hangs: it is mended elsewhere. Without its address,
    for whoever may read this."""
    if addresses and all(map(_is_refused, addresses)):
        return f"{server} is not up: nobody takes connections at its address"
    return f"{server} does not answer"


def _is_refused(address: str) -> bool:
    host, _, port = address.rpartition(":")
    if not host:  # a socket of this machine's, which has no port
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S, all_errors=True).close()
    except ExceptionGroup as errors:  # of each address that the name stands for
        return all(isinstance(error, ConnectionRefusedError) for error in errors.exceptions)
    except (OSError, ValueError):
        return False
    return False


def _ms_since(begun_s: float) -> float:
    return round((time.monotonic() - begun_s) * 1000, 1)
