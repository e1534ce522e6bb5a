"""The view behind GET /state, on a real broker, with its writer killed and its topic replaced."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.topic_names import JOB_STATUS_TOPIC
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

TOPIC = "state.device.v1"


class States:
    """Writes snapshots as the fold does."""

    def __init__(self, bootstrap: str) -> None:
        options = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**options, "partitioner": "murmur2_random"})

    def put(self, entity_id: str, version: int, **state: Any) -> None:
        meta = {"version": version, "event_time_ms": 1_700_000_000_000, "fold": "abc"}
        self.write(entity_id, json.dumps({**state, "_meta": meta}).encode())

    def write(self, entity_id: str, value: bytes | None, topic: str = TOPIC) -> None:
        self._producer.produce(topic, value, entity_id)
        assert self._producer.flush(60) == 0


@pytest.fixture
def states(broker: Stack) -> States:
    return States(broker.kafka_bootstrap)


@pytest.fixture
def real(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path) as gateway:
        until(lambda: _code(gateway, "nobody") == "unknown_id", 20)
        yield gateway


def test_a_snapshot_is_shown_replaced_and_deleted(states: States, real: GatewayProcess) -> None:
    states.put("a-1", 1, count=1)
    until(lambda: _version(real, "a-1") == 1, 5)
    states.put("a-1", 2, count=2)
    until(lambda: _version(real, "a-1") == 2, 5)
    states.put("a-1", 1, count=1)  # a late, older one
    states.write("a-1", b"\xffno json")
    states.write("a-1", b'{"no": "meta"}')
    states.put("a-2", 1)
    until(lambda: _version(real, "a-2") == 1, 5)

    shown = real.client.get("/state/a-1").json()
    assert (shown["version"], shown["state"]) == (2, {"count": 2})
    assert shown["view"]["lag_ms"] < 5000

    def skipped() -> str:
        checks = real.client.get("/health").json()["checks"]
        return str(checks["state_view:lag"][0].get("output", ""))

    until(lambda: "2 unreadable" in skipped(), 5)  # on another partition than what was waited for

    states.write("a-1", None)
    until(lambda: _code(real, "a-1") == "unknown_id", 5)


def test_many_snapshots_are_read_again_from_the_start_by_a_fresh_gateway(
    broker: Stack, states: States, real: GatewayProcess, tmp_path: Path
) -> None:
    for number in range(2000):
        meta = {"version": 1, "event_time_ms": None}
        states._producer.produce(TOPIC, json.dumps({"_meta": meta}), f"many-{number}")
    states.put("many-2000", 1)
    until(lambda: _version(real, "many-2000") == 1, 10)
    with GatewayProcess(broker.kafka_bootstrap, tmp_path / "other") as fresh:
        until(lambda: _code(fresh, "nobody") == "unknown_id", 20)
        assert all(_version(fresh, f"many-{number}") == 1 for number in range(0, 2001, 50))


def test_a_killed_writer_is_replaced_and_misses_nothing(
    states: States, real: GatewayProcess
) -> None:
    states.put("b-1", 1)
    until(lambda: _version(real, "b-1") == 1, 5)
    (writer,) = real.view_writers()
    os.kill(writer, signal.SIGKILL)
    states.put("b-1", 2)
    assert _version(real, "b-1") in (1, 2)  # it goes on answering
    until(lambda: _version(real, "b-1") == 2, 10)
    assert real.view_writers() != [writer]


def test_a_view_that_was_warm_answers_without_kafka_even_after_a_restart(
    broker: Stack, states: States, real: GatewayProcess
) -> None:
    states.put("c-1", 5, count=5)
    until(lambda: _version(real, "c-1") == 5, 5)
    broker.hold("kafka")
    try:
        assert _version(real, "c-1") == 5
        real.stop()
        real.start()
        until(lambda: _version(real, "c-1") == 5, 5)
        time.sleep(1.0)
        first = real.client.get("/state/c-1").json()["view"]
        time.sleep(0.5)
        second = real.client.get("/state/c-1").json()["view"]
        assert second["caught_up_at"] == first["caught_up_at"]
        assert second["lag_ms"] > first["lag_ms"]
    finally:
        broker.release("kafka")
    states.put("c-1", 6)
    until(lambda: _version(real, "c-1") == 6, 15)


def test_a_state_says_that_it_is_stale_when_a_job_before_it_falls_silent(
    broker: Stack, states: States, real: GatewayProcess
) -> None:
    states.put("g-1", 1)
    until(lambda: _version(real, "g-1") == 1, 5)
    producer = Producer({"bootstrap.servers": broker.kafka_bootstrap})

    def shown(*working: str) -> dict[str, Any]:
        for job in working:
            said = {"state": "running", "lag_s": 0.0, "lag_records": 0}
            said["at_ms"] = time.time_ns() // 1_000_000 - 60_000  # its clock is a minute behind
            producer.produce("job.status.v1", json.dumps(said), job)
        producer.flush(60)
        answer: dict[str, Any] = real.client.get("/state/g-1").json()
        return answer

    until(lambda: not shown("enrich", "fold")["stale"], 15)
    assert shown("enrich", "fold")["pipeline_lag_s"] < 5
    until(lambda: shown("enrich")["stale"], 15)  # fold is silent
    told = shown("enrich")
    assert told["stale_because"].startswith("fold has given no sign of life for ")
    assert 5 <= told["pipeline_lag_s"] < 60
    time.sleep(1.0)
    assert shown("enrich")["pipeline_lag_s"] >= told["pipeline_lag_s"] + 0.4


def test_health_tells_what_kafka_says_of_replicas_and_of_what_is_unread(
    real: GatewayProcess,
) -> None:
    def check(name: str) -> dict[str, Any]:
        found: dict[str, Any] = real.client.get("/health").json()["checks"][name][0]
        return found

    def replicas() -> tuple[str, int | None]:
        """None after a look that a busy broker did not answer within a second."""
        told = check("kafka:replicas")
        return told["status"], told.get("observedValue")

    until(lambda: check("retention:unread")["status"] == "pass", 20)
    until(lambda: replicas() == ("pass", 1), 20)
    assert check("kafka:partitions")["status"] == "pass"


def test_a_damaged_view_is_made_anew(states: States, real: GatewayProcess, tmp_path: Path) -> None:
    states.put("f-1", 3)
    until(lambda: _version(real, "f-1") == 3, 5)
    real.stop()
    view = tmp_path / "view"
    (view / "state.sqlite-wal").unlink(missing_ok=True)
    (view / "state.sqlite").write_bytes(b"no database at all " * 1000)
    real.start()
    until(lambda: _version(real, "f-1") == 3, 10)


def test_a_writer_does_not_outlive_a_killed_gateway(real: GatewayProcess) -> None:
    (writer,) = real.view_writers()
    real.kill()
    until(lambda: not Path(f"/proc/{writer}").exists(), 5)


def test_two_gateways_on_one_folder_have_one_writer_and_the_second_takes_over(
    broker: Stack, states: States, real: GatewayProcess, tmp_path: Path
) -> None:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path) as second:
        states.put("d-1", 1)
        until(lambda: _version(second, "d-1") == 1, 5)
        real.kill()
        states.put("d-1", 2)
        until(lambda: _version(second, "d-1") == 2, 10)


def test_jobs_are_seen_on_health_as_soon_as_they_speak(
    states: States, real: GatewayProcess
) -> None:
    sign = {"job": "fold", "state": "waiting", "detail": "for PostgreSQL", "lag_records": 12}
    sign["at_ms"] = time.time_ns() // 1_000_000
    states.write("fold", json.dumps(sign).encode(), JOB_STATUS_TOPIC)

    def fold() -> dict[str, Any]:
        check: dict[str, Any] = real.client.get("/health").json()["checks"]["job:fold"][0]
        return check

    until(lambda: fold().get("output") == "waiting: for PostgreSQL", 5)
    assert (fold()["status"], fold()["observedValue"]) == ("warn", 12)
    assert real.status("/health") == 200


def test_a_topic_that_was_made_again_replaces_what_was_known(
    broker: Stack, states: States, real: GatewayProcess
) -> None:
    states.put("e-1", 1)
    until(lambda: _version(real, "e-1") == 1, 5)
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    time.sleep(1.0)
    config = next(dict(topic.config) for topic in FLOW.topics() if topic.name == TOPIC)
    admin.create_topics([NewTopic(TOPIC, 4, 1, config=config)])[TOPIC].result(60)
    fresh = States(broker.kafka_bootstrap)
    until(lambda: _written(fresh), 20)

    until(lambda: _version(real, "e-2") == 1, 20)
    assert _code(real, "e-1") == "unknown_id"


def _written(states: States) -> bool:
    states.put("e-2", 1)
    return True


def _version(gateway: GatewayProcess, entity_id: str) -> int | None:
    version: int | None = _state(gateway, entity_id).get("version")
    return version


def _code(gateway: GatewayProcess, entity_id: str) -> str | None:
    code: str | None = _state(gateway, entity_id).get("code")
    return code


def _state(gateway: GatewayProcess, entity_id: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = gateway.client.get(f"/state/{entity_id}").json()
    except httpx.TransportError:
        return {}
    return answer
