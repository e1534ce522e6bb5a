"""The gateway as a process on a real broker, which is stopped, killed and frozen."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from local_stack.run.stack import Stack
from shared.events.envelope import find
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

DEADLINE_S = 3.0


@pytest.fixture
def real(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    # a small deadline, so that the tests need not wait long; the bounds follow from it
    settings = {
        "produce_deadline_s": DEADLINE_S,
        "in_flight_payloads_max": 100,
        "batch_payloads_max": 100,
        "spool_bytes_max": 0,
    }
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, **settings) as gateway:
        until(lambda: gateway.status("/readyz") == 200, 20)
        yield gateway


def test_every_body_is_at_the_place_of_its_receipt(broker: Stack, real: GatewayProcess) -> None:
    chance = random.Random(17)
    bodies = [chance.randbytes(chance.randint(1, 3000)) for _ in range(300)]
    bodies += [b"\0", b"\xff\xfe\0\xc3(", bytes(1024 * 1024), chance.randbytes(1024 * 1024)]
    receipts: dict[tuple[int, int], tuple[str, bytes]] = {}
    for number, body in enumerate(bodies):
        answer = real.post(f"device-{number % 50}", body)
        assert answer.status_code == 202
        receipt = answer.json()
        receipts[receipt["partition"], receipt["offset"]] = receipt["id"], body

    found = _records(broker, list(receipts))
    for place, (event_id, body) in receipts.items():
        message = found[place]
        headers: Any = message.headers()
        assert message.value() == body
        assert find(headers, "ce_id") == event_id.encode()
        assert find(headers, "ce_payloadsha256") == sha256(body).hexdigest().encode()


def test_payloads_of_one_entity_are_on_one_partition_in_their_order(real: GatewayProcess) -> None:
    receipts = [real.post("device-7").json() for _ in range(20)]
    assert len({receipt["partition"] for receipt in receipts}) == 1
    offsets = [receipt["offset"] for receipt in receipts]
    assert offsets == sorted(offsets)


def test_batches_of_many_entities_are_at_their_places_in_their_order(
    broker: Stack, real: GatewayProcess
) -> None:
    chance = random.Random(23)
    receipts: dict[tuple[int, int], tuple[str, bytes]] = {}
    places: dict[str, list[tuple[int, int]]] = {}
    for _ in range(20):
        rows = [(f"batch-{chance.randrange(9)}", chance.randbytes(40)) for _ in range(100)]
        body = b"".join(b"%s %d\n%s\n" % (name.encode(), len(raw), raw) for name, raw in rows)
        answer = real.client.post(
            "/v1/telemetry",
            content=body,
            headers={"content-type": "application/vnd.headrace.frames"},
        )
        assert answer.status_code == 207
        for (name, raw), told in zip(rows, answer.json()["receipts"], strict=True):
            place = (told["partition"], told["offset"])
            receipts[place] = told["id"], raw
            places.setdefault(name, []).append(place)

    assert len(receipts) == 2000
    found = _records(broker, list(receipts))
    for place, (event_id, raw) in receipts.items():
        headers: Any = found[place].headers()
        assert (found[place].value(), find(headers, "ce_id")) == (raw, event_id.encode())
    for own in places.values():
        assert own == sorted(own)
        assert len({partition for partition, _ in own}) == 1


def _freeze(pid: int) -> None:
    """Returns when every thread has stopped: until then one may still answer."""
    os.kill(pid, signal.SIGSTOP)
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    until(lambda: all(_state(thread) in "Tt" for thread in threads), 5)


def _state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:  # it has ended while the others stopped
        return "T"


def test_a_frozen_broker_is_answered_in_time_and_forgotten_when_it_thaws(
    broker: Stack, real: GatewayProcess
) -> None:
    broker_pid = broker.pid("kafka")
    assert broker_pid is not None
    assert real.post().status_code == 202
    _freeze(broker_pid)
    try:
        first = real.post()
        assert (first.status_code, first.json()["outcome"]) == (503, "unknown")
        assert first.elapsed.total_seconds() < DEADLINE_S + 2
        until(lambda: real.status("/readyz") == 503, 5)
        refused = real.post()
        assert (refused.status_code, refused.json()["outcome"]) == (503, "definite")
        assert refused.elapsed.total_seconds() < 1
        until(lambda: real.status("/health") == 503, 5)
    finally:
        os.kill(broker_pid, signal.SIGCONT)
    assert until(lambda: real.post().status_code == 202, 10) < 5


def test_a_killed_broker_costs_no_receipt_and_the_next_one_is_used_at_once(
    broker: Stack, real: GatewayProcess
) -> None:
    assert real.post().status_code == 202
    broker.hold("kafka")
    until(lambda: real.status("/readyz") == 503, 5)
    refused = real.post()
    assert (refused.status_code, refused.json()["outcome"]) == (503, "definite")
    assert refused.headers["retry-after"] == "1"
    broker.release("kafka")
    until(lambda: real.post().status_code == 202, 15)
    until(lambda: real.status("/health") == 200, 10)


def test_a_flood_against_an_absent_broker_is_refused_without_piling_up(
    broker: Stack, real: GatewayProcess
) -> None:
    assert real.post(body=bytes(100_000)).status_code == 202
    broker_pid = broker.pid("kafka")
    assert broker_pid is not None
    before_mib = real.resident_mib()
    _freeze(broker_pid)
    try:
        seen = _flood(real, seconds=8.0)
        after_mib = real.resident_mib()
    finally:
        os.kill(broker_pid, signal.SIGCONT)
    assert seen.keys() == {(503, "definite"), (503, "unknown")}
    assert after_mib < before_mib + 64
    until(lambda: real.post().status_code == 202, 10)


def test_it_starts_without_a_broker_and_takes_payloads_as_soon_as_there_is_one(
    broker: Stack, tmp_path: Path
) -> None:
    broker.hold("kafka")
    try:
        with GatewayProcess(broker.kafka_bootstrap, tmp_path, spool_bytes_max=0) as gateway:
            assert gateway.status("/readyz") == 503
            refused = gateway.post()
            assert (refused.status_code, refused.json()["outcome"]) == (503, "definite")
            broker.release("kafka")
            until(lambda: gateway.post().status_code == 202, 20)
    finally:
        broker.release("kafka")


def test_it_stops_in_seconds_while_the_broker_is_frozen(
    broker: Stack, real: GatewayProcess
) -> None:
    broker_pid = broker.pid("kafka")
    assert broker_pid is not None
    _freeze(broker_pid)
    try:
        waiting = threading.Thread(target=_post_and_forget, args=(real,))
        waiting.start()
        time.sleep(0.2)
        begun_s = time.monotonic()
        real.stop()
        assert time.monotonic() - begun_s < 15
        waiting.join()
    finally:
        os.kill(broker_pid, signal.SIGCONT)


def _post_and_forget(gateway: GatewayProcess) -> None:
    try:
        gateway.post()
    except httpx.TransportError:
        return


def _flood(gateway: GatewayProcess, seconds: float) -> dict[tuple[int, str], int]:
    seen: dict[tuple[int, str], int] = {}
    end_s = time.monotonic() + seconds

    def send() -> None:
        with httpx.Client(base_url=gateway.client.base_url, timeout=30) as client:
            while time.monotonic() < end_s:
                answer = client.post("/v1/telemetry/device-0001", content=bytes(100_000))
                kind = answer.status_code, answer.json().get("outcome", "")
                seen[kind] = seen.get(kind, 0) + 1

    threads = [threading.Thread(target=send) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def _records(broker: Stack, places: list[tuple[int, int]]) -> dict[tuple[int, int], Message]:
    consumer = Consumer({"bootstrap.servers": broker.kafka_bootstrap, "group.id": "test"})
    first = {p: min(o for q, o in places if q == p) for p, _ in places}
    consumer.assign([TopicPartition("ingest.telemetry.v1", p, o) for p, o in first.items()])
    found: dict[tuple[int, int], Message] = {}
    deadline_s = time.monotonic() + 30
    while not found.keys() >= set(places) and time.monotonic() < deadline_s:
        for message in consumer.consume(500, 0.05):
            assert message.error() is None
            found[message.partition() or 0, message.offset() or 0] = message
    consumer.close()
    return found
