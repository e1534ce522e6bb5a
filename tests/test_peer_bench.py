"""The commands that a comparison with others starts keep its contract, as benchmarks/README.md says
it: environment in, the same work done, SIGTERM ends it all."""

import operator
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.processes import tree
from local_stack.machine.ports import accepts, free_port
from local_stack.run.stack import Stack
from tests.kafka_log import eventually, last_values, read_topic
from tests.processes import is_alive

pytestmark = pytest.mark.stack

COMMANDS = Path(__file__).parent.parent / "benchmarks"
RAW, EVENTS, STATE = "raw.telemetry", "events.telemetry", "state.device"
DEVICES, PAYLOADS = 200, 4_000
STRANGER = "stranger"  # is in no AREAS
MACHINE = {
    "IDLE": [(operator.ge, 80, "ALARM"), (operator.ge, 20, "ACTIVE")],
    "ACTIVE": [(operator.ge, 80, "ALARM"), (operator.lt, 15, "IDLE")],
    "ALARM": [(operator.lt, 15, "IDLE"), (operator.lt, 60, "ACTIVE")],
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("kafka"), random_ports=True, services=("kafka",)) as stack:
        log_time = {"message.timestamp.type": "LogAppendTime"}
        topics = [
            NewTopic(RAW, 4, 1),
            NewTopic(EVENTS, 4, 1, config=log_time),
            NewTopic(STATE, 4, 1, config={**log_time, "cleanup.policy": "compact"}),
        ]
        admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap, "log_level": 0})
        for made in admin.create_topics(topics).values():
            made.result(30)
        yield stack


@contextmanager
def running(command: str, folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """On SIGTERM to the command alone, everything that it has started ends."""
    log = folder / "log"
    assert os.access(COMMANDS / command, os.X_OK)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, COMMANDS / command],
            env={**os.environ, **environment},
            cwd=folder,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()
        started = tree(process.pid)
        process.send_signal(signal.SIGTERM)
        # uvicorn ends in good order, then by the signal that it was sent
        assert process.wait(60) in (0, -signal.SIGTERM)
        eventually(lambda: not any(map(is_alive, started)), within_s=120)
    except BaseException:
        print(log.read_text())
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def payloads() -> list[dict[str, Any]]:
    dice = random.Random(42)
    sequence: dict[str, int] = {}
    made = []
    for number in range(PAYLOADS):
        device = f"dev-{dice.randrange(DEVICES):06}"
        sequence[device] = sequence.get(device, 0) + 1
        value = dice.randrange(10_000) / 100
        made.append(
            {
                "deviceId": device,
                "type": "telemetry",
                "seq": sequence[device],
                "ts": 1_700_000_000_000 + number,
                "v": value,
                "fw": "1.4.2",
            }
        )
    return made


def expected(sent: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    by_device: dict[str, list[dict[str, Any]]] = {}
    for payload in sent:
        by_device.setdefault(payload["deviceId"], []).append(payload)
    return {device: folded(device, own) for device, own in by_device.items()}


def folded(device: str, own: list[dict[str, Any]]) -> dict[str, Any]:
    states = ["IDLE"]
    for payload in own:
        now = states[-1]
        rules = MACHINE[now]
        states.append(next((to for holds, at, to in rules if holds(payload["v"], at)), now))
    values = [payload["v"] for payload in own]
    return {
        "deviceId": device,
        "area": f"area of {device}",
        "count": len(own),
        "last": values[-1],
        "min": min(values),
        "max": max(values),
        "state": states[-1],
        "changes": sum(a != b for a, b in pairwise(states)),
        "ts": own[-1]["ts"],
    }


@pytest.mark.long
def test_the_pipeline_folds_every_payload_once(kafka: Stack, tmp_path: Path) -> None:
    sent = payloads()
    producer = Producer(
        {"bootstrap.servers": kafka.kafka_bootstrap, "partitioner": "murmur2_random"}
    )
    for payload in [{**sent[0], "deviceId": STRANGER}, *sent]:
        producer.produce(RAW, orjson.dumps(payload), payload["deviceId"])
    assert producer.flush(30) == 0
    areas = tmp_path / "areas.csv"
    areas.write_text("".join(f"dev-{n:06},area of dev-{n:06}\n" for n in range(DEVICES)))
    environment = {
        "BOOTSTRAP": kafka.kafka_bootstrap,
        "RAW": RAW,
        "EVENTS": EVENTS,
        "STATE": STATE,
        "AREAS": str(areas),
        "WORKDIR": str(tmp_path / "work"),
        "GUARANTEE": "eos",
        "COMMIT_MS": "200",
        "THREADS": "2",
        "PARTITIONS": "4",
    }

    def total() -> int:
        return sum(state["count"] for state in last_values(kafka.kafka_bootstrap, STATE).values())

    with running("peer_pipeline", tmp_path, environment):
        eventually(lambda: total() >= PAYLOADS, within_s=300)
    states = last_values(kafka.kafka_bootstrap, STATE)
    for state in states.values():
        del state["_meta"]
    assert states == expected(sent)
    (waiting,) = read_topic(kafka.kafka_bootstrap, "retry.enrich.v1")
    assert waiting.key == STRANGER.encode()


def test_the_gateway_writes_what_it_answers_for(kafka: Stack, tmp_path: Path) -> None:
    port = free_port()
    environment = {"BOOTSTRAP": kafka.kafka_bootstrap, "RAW": RAW, "PORT": str(port)}
    body = b'{"deviceId":"dev-000001"}'
    with running("peer_gateway", tmp_path, environment):
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: accepts(port) and httpx.get(f"{url}/readyz").status_code == 200)
        answer = httpx.post(f"{url}/v1/telemetry/device-0001", content=body, timeout=20)
    assert answer.status_code == 202
    receipt = answer.json()
    assert receipt["topic"] == RAW
    records = {(r.partition, r.offset): r for r in read_topic(kafka.kafka_bootstrap, RAW)}
    assert records[receipt["partition"], receipt["offset"]].value == body
