"""The topics of enrich, with master data of devices that it knows."""

from collections import defaultdict
from typing import Any

import orjson
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from shared.flow import FLOW
from shared.settings import JobSettings
from shared.topic_names import (
    JOB_STATUS_TOPIC,
    RELAY_HEARTBEAT_KEY,
    dead_letter_topic,
    master_topic,
    retry_topic,
)
from tests.kafka_log import Record, last_values, read_topic

KNOWN = [f"device-{number}" for number in range(20)]
UNKNOWN = [f"nobody-{number}" for number in range(3)]
INGEST = "ingest.telemetry.v1"
EVENTS, LANE, LETTERS = "event.reading.v1", retry_topic("enrich"), dead_letter_topic("enrich")


class Topics:
    def __init__(self, settings: JobSettings) -> None:
        self._kafka = settings.kafka_bootstrap
        self._producer = Producer(
            {"bootstrap.servers": self._kafka, "partitioner": "murmur2_random"}
        )
        ensure_topics(FLOW, settings)
        area = orjson.dumps({"area": "area-01", "model": "thermo-c"})
        model = orjson.dumps({"value_field": "value", "unit": "celsius"})
        self.write(master_topic("device"), dict.fromkeys(KNOWN, area))
        self.write(master_topic("device_model"), {"thermo-c": model})
        is_all = {RELAY_HEARTBEAT_KEY: orjson.dumps({"as_of_ms": 2_000_000_000_000})}
        for table in FLOW.master_tables:
            self.write(master_topic(table), is_all)

    def write(self, topic: str, values: dict[str, bytes]) -> None:
        for key, value in values.items():
            self._producer.produce(topic, value, key)
        assert self._producer.flush(60) == 0

    def wave(self, number: int) -> None:
        self.write(INGEST, dict.fromkeys([*KNOWN, *UNKNOWN], b'{"value": %d}' % number))
        self.write(INGEST, {KNOWN[number]: b"not %d" % number})

    def has_all_of(self, waves: int) -> bool:
        return (
            len(self.read(EVENTS)) >= waves * len(KNOWN)
            and len(self.read(LANE)) >= waves * len(UNKNOWN)
            and len(self.read(LETTERS)) >= waves
        )

    def read(self, topic: str) -> list[Record]:
        return read_topic(self._kafka, topic)

    def events(self) -> dict[str, list[int]]:
        """Of each device, in the order of their topic."""
        found = defaultdict(list)
        for record in self.read(EVENTS):
            event = orjson.loads(record.value or b"")
            found[event["entity_id"]].append(int(event["data"]["value"]))
        return found

    def said(self) -> dict[str, Any]:
        return last_values(self._kafka, JOB_STATUS_TOPIC).get("enrich", {})
