"""A ledger of what clients were told, against what is in Kafka, through freezes and kills."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from local_stack.run.stack import Stack
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

TOPIC = "ingest.telemetry.v1"
CLIENTS = 8


class Told(NamedTuple):
    body: bytes
    outcome: str  # written, definite or unknown
    place: tuple[int, int] | None


@pytest.fixture
def real(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    settings = {"produce_deadline_s": 2.0, "spool_bytes_max": 0}
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, **settings) as gateway:
        until(lambda: gateway.status("/readyz") == 200, 20)
        yield gateway


def test_what_clients_were_told_is_true_through_freezes_and_kills_of_the_broker(
    broker: Stack, real: GatewayProcess
) -> None:
    told: list[Told] = []
    over = threading.Event()
    clients = [
        threading.Thread(target=_post_until, args=(real, number, over, told))
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        for frozen_s in (0.5, 4.0, 1.0):
            time.sleep(1.0)
            _freeze(broker, frozen_s)
        time.sleep(1.0)
        broker.hold("kafka")
        time.sleep(2.0)
        broker.release("kafka")
        until(lambda: real.status("/readyz") == 200, 20)
        time.sleep(2.0)
    finally:
        over.set()
        for client in clients:
            client.join()

    found = whole_topic(broker)
    bodies = set(found.values())
    by_outcome = {kind: [t for t in told if t.outcome == kind] for kind in ("written", "definite")}
    assert all(by_outcome.values())
    assert {kind for _, kind, _ in told} == {"written", "definite", "unknown"}
    assert all(t.place and found[t.place] == t.body for t in by_outcome["written"])
    assert not [t for t in by_outcome["definite"] if t.body in bodies]


def _freeze(broker: Stack, seconds: float) -> None:
    pid = broker.pid("kafka")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def _post_until(
    gateway: GatewayProcess, client_number: int, over: threading.Event, told: list[Told]
) -> None:
    number = 0
    with httpx.Client(base_url=gateway.client.base_url, timeout=20) as client:
        while not over.is_set():
            number += 1
            body = f"faults {client_number} {number}".encode()
            answer = client.post(f"/v1/telemetry/faulty-{client_number}", content=body)
            fields = answer.json()
            if answer.status_code == 202:
                place = fields["partition"], fields["offset"]
                told.append(Told(body, "written", place))
            else:
                told.append(Told(body, fields["outcome"], None))
                time.sleep(0.05)


def whole_topic(broker: Stack) -> dict[tuple[int, int], bytes]:
    return {place: body for place, (_, body) in whole_log(broker).items()}


def whole_log(broker: Stack) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    """Key and body at each place."""
    return {
        (message.partition() or 0, message.offset() or 0): (
            message.key() or b"",
            message.value() or b"",
        )
        for message in messages(broker, TOPIC)
    }


def messages(broker: Stack, topic: str) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka_bootstrap,
            "group.id": "test",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # or the broker keeps an end to itself for half a second
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(4)])
    found: list[Message] = []
    ended: set[int | None] = set()
    deadline_s = time.monotonic() + 60
    while len(ended) < 4 and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 0.05):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == 4
    return found
