"""Reads topics whole, from their first record to what is their end now."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaError, TopicPartition


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    timestamp_ms: int = 0


def read_topic(kafka: str | Mapping[str, Any], topic: str) -> list[Record]:
    consumer = Consumer(
        {
            **({"bootstrap.servers": kafka} if isinstance(kafka, str) else kafka),
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # or the broker keeps an end to itself for half a second
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        records, unread = [], set(partitions)
        while unread:
            for message in consumer.consume(5000, 0.05):
                error = message.error()
                if error is None:
                    records.append(
                        Record(
                            message.partition(),
                            message.offset(),
                            message.key(),
                            message.value(),
                            dict(message.headers() or []),
                            message.timestamp()[1],
                        )
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
        return records
    finally:
        consumer.close()


def last_values(bootstrap: str, topic: str) -> dict[str, dict]:
    """The latest value of each key, as a compacted topic means it."""
    last = {record.key: record.value for record in read_topic(bootstrap, topic)}
    return {key.decode(): orjson.loads(value) for key, value in last.items()}


def distinct_events(bootstrap: str, topic: str) -> list[dict]:
    """Values of an event topic in log order; a second writing of an event is left out."""
    by_id: dict[str, dict] = {}
    for record in sorted(read_topic(bootstrap, topic)[:], key=lambda r: (r.partition, r.offset)):
        event = orjson.loads(record.value)
        by_id.setdefault(event["id"], event)
    return list(by_id.values())


def eventually(holds: Callable[[], bool], within_s: float = 120.0, every_s: float = 0.3) -> None:
    """Looks for half of the time at most: the rest is for those who are looked at."""
    began = time.monotonic()
    while True:
        looked = time.monotonic()
        if holds():
            return
        now = time.monotonic()
        assert now < began + within_s, f"not within {within_s:.0f} s"
        time.sleep(max(every_s, now - looked))
