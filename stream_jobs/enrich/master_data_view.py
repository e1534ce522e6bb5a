"""Last known master data, followed from its compacted topics. One a worker process.

It loads whole before the first look-up, then takes in changes between batches without waiting.
"""

import time
from typing import Any

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from shared.errors import StaleMasterDataError
from shared.kafka_access import KafkaAccess
from shared.model import Fields
from shared.timestamps import is_time_ms
from shared.topology import RELAY_HEARTBEAT_KEY, master_topic

_LOAD_DEADLINE_S = 60.0
_ANSWER_S = 5.0
_CHUNK_RECORDS = 10_000


class MasterView:
    def __init__(self, kafka: KafkaAccess, tables: tuple[str, ...], age_max_s: float) -> None:
        self._age_max_s = age_max_s
        self._table_by_topic = {master_topic(table): table for table in tables}
        # values stay bytes until they are asked for: a million parsed rows would not fit
        self._rows: dict[str, dict[str, bytes]] = {table: {} for table in tables}
        self._as_of_ms = dict.fromkeys(tables, 0)
        config = {
            **kafka.for_reading("headrace-master-view"),
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
        # one that only asks: on one that reads, too, each question would wait behind a fetch
        self._consumer, self._asking = Consumer(config), Consumer(config)
        self._next: dict[tuple[str, int], int] = {}
        if tables:
            self._load()

    def find(self, table: str, key: str) -> Fields | None:
        # what is no row is as good as none: the payload waits for a better one
        row = _json(self._rows[table].get(key))
        return row if isinstance(row, dict) else None

    def refresh(self) -> None:
        """Takes in what has come since; raises where what is known has grown too old."""
        while self._take(timeout_s=0):
            pass
        for table, as_of_ms in self._as_of_ms.items():
            age_s = time.time() - as_of_ms / 1000
            if age_s > self._age_max_s:
                raise StaleMasterDataError(
                    f"master data of {table!r} was last confirmed "
                    f"{f'{age_s:.0f} s ago' if as_of_ms else 'never'}, "
                    f"HEADRACE_MASTER_AGE_MAX_S allows {self._age_max_s:.0f}"
                )

    def catch_up(self) -> None:
        """Takes in all that was written until now: whoever waits for a row is told but once that it
        has come, and must not look at less than that."""
        places = [TopicPartition(*at, OFFSET_END) for at in self._next]
        ends = self._asking.offsets_for_times(places, _ANSWER_S) if places else []
        deadline = time.monotonic() + _LOAD_DEADLINE_S
        while any(self._next[end.topic, end.partition] < end.offset for end in ends):
            if time.monotonic() > deadline:
                raise StaleMasterDataError(f"master data did not load in {_LOAD_DEADLINE_S:.0f} s")
            self._take(timeout_s=0.02)  # which is waited whole where little comes

    def _load(self) -> None:
        deadline = time.monotonic() + _LOAD_DEADLINE_S
        missing = self._assign()
        while missing:
            if time.monotonic() > deadline:
                raise StaleMasterDataError(f"master data did not load in {_LOAD_DEADLINE_S:.0f} s")
            self._take(timeout_s=0.2, missing=missing)

    def _assign(self) -> set[tuple[str, int]]:
        try:
            known = self._consumer.list_topics(timeout=10).topics
        except KafkaException as error:
            raise StaleMasterDataError(f"Kafka is away: {error.args[0].str()}") from error
        partitions = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in self._table_by_topic
            if topic in known
            for partition in known[topic].partitions
        ]
        absent = [topic for topic in self._table_by_topic if topic not in known]
        if absent:
            raise StaleMasterDataError(f"topic {absent[0]} is missing: make the flow's topics")
        self._consumer.assign(partitions)
        self._next = {(place.topic, place.partition): 0 for place in partitions}
        return {(place.topic, place.partition) for place in partitions}

    def _take(self, timeout_s: float, missing: set[tuple[str, int]] | None = None) -> int:
        messages = self._consumer.consume(_CHUNK_RECORDS, timeout_s)
        for message in messages:
            topic = str(message.topic())
            error = message.error()
            at = topic, message.partition() or 0
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._next[at] = message.offset() or 0  # what it skipped is compacted away
                    if missing is not None:
                        missing.discard(at)
                continue
            self._next[at] = (message.offset() or 0) + 1
            table = self._table_by_topic[topic]
            key, value = (message.key() or b"").decode(errors="replace"), message.value()
            if key == RELAY_HEARTBEAT_KEY:
                if (as_of_ms := confirmed_ms(value)) is not None:
                    self._as_of_ms[table] = as_of_ms
            elif value is None:
                self._rows[table].pop(key, None)
            else:
                self._rows[table][key] = value
        return len(messages)


def confirmed_ms(heartbeat: bytes | None) -> int | None:
    """Up to when a topic has all, as the relay says there."""
    beat = _json(heartbeat)
    as_of_ms = beat.get("as_of_ms") if isinstance(beat, dict) else None
    return as_of_ms if is_time_ms(as_of_ms) else None


def _json(raw: bytes | None) -> Any:
    """None where it is none. A worker that died of it would meet it again at its next load."""
    try:
        return None if raw is None else orjson.loads(raw)
    except ValueError:
        return None
