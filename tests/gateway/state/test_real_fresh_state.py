"""`GET /state/{id}?fresh=true` on a real broker: what fold has not done yet is in it."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.code_fingerprint import entity_fingerprint
from tests.builders import event_record
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

DEVICE = FLOW.entities[0]
READINGS = FLOW.event_type("reading").topic


class Jobs:
    """Writes what enrich and fold write."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        self._applier = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})

    def enrich(self, *records: EventRecord) -> list[EventRecord]:
        """As they stand in the log then."""
        places = [self._write(READINGS, event_value(r), r.entity_id) for r in records]
        return [r._replace(position=at) for r, at in zip(records, places, strict=True)]

    def fold(self, *records: EventRecord) -> None:
        now = self._applier.apply(records[0].entity_id, None, records).snapshot
        assert now is not None
        value = snapshot.encode(now, entity_fingerprint(DEVICE))
        self._write(DEVICE.topic, value, records[0].entity_id)
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": of_job("fold")})
        last = records[-1].position
        consumer.commit(
            offsets=[TopicPartition(last.topic, last.partition, last.offset + 1)],
            asynchronous=False,
        )
        consumer.close()

    def _write(self, topic: str, value: bytes, key: str) -> Position:
        places: list[Position] = []
        self._producer.produce(
            topic,
            value,
            key,
            on_delivery=lambda _, m: places.append(Position(m.topic(), m.partition(), m.offset())),
        )
        assert self._producer.flush(60) == 0
        return places[0]


def _ask(gateway: GatewayProcess, entity_id: str, **more: Any) -> dict[str, Any]:
    answer = gateway.client.get(f"/state/{entity_id}", params={"fresh": True, **more})
    told: dict[str, Any] = answer.json()
    return told


def _delete(broker: Stack, at: Position, up_to: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    for deleted in admin.delete_records([TopicPartition(at.topic, at.partition, up_to)]).values():
        deleted.result(60)


def _readings(entity_id: str, *numbers: int) -> list[EventRecord]:
    return [event_record(n, entity_id=entity_id, value=float(n), origin=n) for n in numbers]


def test_an_event_is_in_a_fresh_state_before_fold_has_done_it(
    broker: Stack, tmp_path: Path
) -> None:
    jobs = Jobs(broker.kafka_bootstrap)
    first = jobs.enrich(*_readings("fresh-1", 1, 2))
    with GatewayProcess(broker.kafka_bootstrap, tmp_path) as gateway:
        until(lambda: gateway.client.get("/state/fresh-1").status_code == 404, 20)
        until(lambda: _ask(gateway, "fresh-1").get("fresh"), 20)
        told = _ask(gateway, "fresh-1")
        assert (told["events_ahead"], told["version"], told["state"]["value"]) == (2, 2, 2.0)
        assert "fresh" not in gateway.client.get("/state/fresh-1").json()

        jobs.fold(*first)
        until(lambda: _ask(gateway, "fresh-1").get("events_ahead") == 0, 10)
        jobs.enrich(*_readings("fresh-1", 3))
        until(lambda: _ask(gateway, "fresh-1")["version"] == 3, 5)
        told = _ask(gateway, "fresh-1", meta=True)
        assert (told["events_ahead"], told["state"]["count"]) == (1, 3)
        assert told["_meta"]["version"] == 3
        shown = gateway.client.get("/state/fresh-1").json()
        assert (shown["version"], shown["state"]["count"]) == (2, 2)

        told = _ask(gateway, "area/area-01")
        assert told["code"] == "unknown_id"


def test_a_log_that_has_lost_its_oldest_events_is_read_from_where_it_begins(
    broker: Stack, tmp_path: Path
) -> None:
    jobs = Jobs(broker.kafka_bootstrap)
    (old,) = jobs.enrich(*_readings("fresh-3", 1))
    _delete(broker, old.position, up_to=old.position.offset + 1)
    jobs.enrich(*_readings("fresh-3", 2))
    with GatewayProcess(broker.kafka_bootstrap, tmp_path) as gateway:
        until(lambda: gateway.client.get("/state/fresh-3").status_code == 404, 20)
        until(lambda: _ask(gateway, "fresh-3").get("fresh"), 20)
        for _ in range(30):
            told = _ask(gateway, "fresh-3")
            assert (told["events_ahead"], told["state"]["value"]) == (1, 2.0)
            time.sleep(0.05)


def test_events_that_were_deleted_before_fold_had_done_them_are_named(
    broker: Stack, tmp_path: Path
) -> None:
    jobs = Jobs(broker.kafka_bootstrap)
    first, second, _ = jobs.enrich(*_readings("fresh-4", 1, 2, 3))
    jobs.fold(first)
    _delete(broker, second.position, up_to=second.position.offset + 1)
    with GatewayProcess(broker.kafka_bootstrap, tmp_path) as gateway:
        until(lambda: gateway.client.get("/state/fresh-4").status_code == 200, 20)
        says = f"events of {READINGS}, partition {second.position.partition}, were deleted before"
        until(lambda: str(_ask(gateway, "fresh-4").get("not_fresh")).startswith(says), 20)
    jobs.fold(second)  # for the tests that come after this one


def test_where_too_much_waits_the_snapshot_is_shown_and_says_so(
    broker: Stack, tmp_path: Path
) -> None:
    jobs = Jobs(broker.kafka_bootstrap)
    jobs.fold(*jobs.enrich(*_readings("fresh-2", 1)))
    jobs.enrich(*_readings("fresh-2", *range(2, 12)))
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, fresh_tail_bytes_max=2000) as gateway:
        until(lambda: gateway.client.get("/state/fresh-2").status_code == 200, 20)

        def says_why() -> bool:
            why: str = _ask(gateway, "fresh-2").get("not_fresh", "")
            return why.startswith("fold is far behind")

        until(says_why, 10)
        told = _ask(gateway, "fresh-2")
        assert (told["fresh"], told["version"]) == (False, 1)
