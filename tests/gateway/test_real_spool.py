"""The gateway as a process while its broker is away, frozen or comes back under load."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from local_stack.stack import Stack
from tests.gateway.support import GatewayProcess, until
from tests.gateway.test_real_faults import whole_log, whole_topic

pytestmark = pytest.mark.stack

CLIENTS = 6


@pytest.fixture
def gateway(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, spool_after_s=1.0) as gateway:
        until(lambda: gateway.status("/readyz") == 200, 20)
        yield gateway


class Client(threading.Thread):
    """Posts one after the other for one entity, and keeps what it was told."""

    def __init__(self, name: str, *gateways: GatewayProcess) -> None:
        super().__init__()
        self.told: list[tuple[bytes, bool]] = []  # what, and whether it was spooled
        self.over = threading.Event()
        self._entity = name
        self._urls = [gateway.client.base_url for gateway in gateways]

    def run(self) -> None:
        number = 0
        with httpx.Client(timeout=20) as client:
            while not self.over.is_set():
                body = f"{self._entity} {number}".encode()
                url = self._urls[number % len(self._urls)]
                number += 1
                try:
                    answer = client.post(f"{url}/v1/telemetry/{self._entity}", content=body)
                except httpx.TransportError:
                    time.sleep(0.05)
                    continue
                assert answer.status_code == 202, answer.text
                self.told.append((body, "spooled" in answer.json()))

    def finish(self) -> None:
        self.over.set()
        self.join()

    def direct_at_last(self) -> bool:
        return bool(self.told) and not self.told[-1][1]

    def check(self, bodies: list[bytes]) -> tuple[int, int]:
        """Each was written, the first copies in the order in which they were told. How many more
        copies there are of what was spooled, and of the rest."""
        own = [body for body in bodies if body.startswith(f"{self._entity} ".encode())]
        told = [body for body, _ in self.told]
        assert [body for body in dict.fromkeys(own) if body in set(told)] == told
        spooled = {body for body, was_spooled in self.told if was_spooled}
        again = [body for body, count in Counter(own).items() for _ in range(count - 1)]
        of_spooled = sum(body in spooled for body in again)
        return of_spooled, len(again) - of_spooled


def _bodies(broker: Stack) -> list[bytes]:
    return [body for _, body in sorted(whole_topic(broker).items())]


def test_what_was_spooled_survives_a_kill_and_is_in_kafka_when_it_returns(
    broker: Stack, gateway: GatewayProcess
) -> None:
    name = f"spooled-{time.time_ns()}"
    assert "partition" in gateway.post(name, b"0").json()
    broker.hold("kafka")
    try:
        answers = [gateway.post(name, b"%d" % number) for number in range(1, 40)]
        assert gateway.status("/readyz") == 200
        check = gateway.client.get("/health").json()["checks"]["spool:depth"][0]
        assert (check["status"], check["observedValue"]) == ("warn", 39)
        gateway.kill()
        gateway.start()
        answers += [gateway.post(name, b"%d" % number) for number in range(40, 60)]
    finally:
        broker.release("kafka")
    assert [answer.status_code for answer in answers] == [202] * 59
    assert all(answer.json()["spooled"] for answer in answers)
    until(lambda: "partition" in gateway.post(name, b"at last").json(), 30)

    found = [m for m in _bodies_of(broker, name) if m != b"at last"]
    assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(60)]


def _bodies_of(broker: Stack, entity_id: str) -> list[bytes]:
    records = whole_log(broker)
    return [body for _, (key, body) in sorted(records.items()) if key == entity_id.encode()]


def _is_drained(gateway: GatewayProcess) -> bool:
    depth = gateway.client.get("/health").json()["checks"]["spool:depth"][0]
    return bool(depth["observedValue"] == 0)


def test_through_freezes_and_restarts_of_the_broker_every_answer_is_a_receipt_that_holds(
    broker: Stack, gateway: GatewayProcess
) -> None:
    pid = broker.pid("kafka")
    assert pid is not None
    clients = [Client(f"frozen-{number}", gateway) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        for frozen_s in (0.5, 4.0):
            time.sleep(0.5)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(frozen_s)
            os.kill(pid, signal.SIGCONT)
        time.sleep(1.0)
        broker.hold("kafka")
        time.sleep(3.0)
        broker.release("kafka")
        until(lambda: all(client.direct_at_last() for client in clients), 40)
    finally:
        for client in clients:
            client.finish()
    until(lambda: _is_drained(gateway), 30)
    bodies = _bodies(broker)
    of_spooled, of_the_rest = map(sum, zip(*(c.check(bodies) for c in clients), strict=True))
    assert {spooled for client in clients for _, spooled in client.told} == {False, True}
    # at most what was under way to a broker that was frozen or stopped: a payload of each client,
    # and of the spool all that goes there at once
    spooled = sum(was_spooled for client in clients for _, was_spooled in client.told)
    assert of_the_rest <= 3 * CLIENTS
    assert of_spooled <= spooled


def test_two_gateways_of_one_node_keep_the_order_of_an_entity_that_uses_both(
    broker: Stack, gateway: GatewayProcess, tmp_path: Path
) -> None:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, spool_after_s=1.0) as other:
        until(lambda: other.status("/readyz") == 200, 20)
        clients = [Client(f"both-{number}", gateway, other) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            time.sleep(0.5)
            broker.hold("kafka")
            time.sleep(3.0)
            broker.release("kafka")
            until(lambda: all(client.direct_at_last() for client in clients), 40)
        finally:
            for client in clients:
                client.finish()
        until(lambda: _is_drained(gateway), 30)  # by the one or the other
    bodies = _bodies(broker)
    for client in clients:
        client.check(bodies)
        assert any(spooled for _, spooled in client.told)
