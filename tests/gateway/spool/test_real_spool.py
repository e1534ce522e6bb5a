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
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from typer.testing import CliRunner, Result

from clients.kafka.messages import payload_of
from local_stack import cli
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from shared.events.envelope import Position, read_event
from shared.flow import FLOW
from shared.folding.applier import Applier
from shared.timestamps import from_rfc3339
from tests.builders import enriches
from tests.gateway.server.test_real_faults import messages, whole_log, whole_topic
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

CLIENTS = 6
TELEMETRY, STATUS = "ingest.telemetry.v1", "ingest.status.v1"


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
    # the first one that a new partition gets may take a slow broker more than the second after
    # which the disk is used
    until(lambda: "partition" in gateway.post(name, b"0").json(), 20)
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


def test_a_topic_that_is_gone_keeps_no_other_waiting_and_drains_when_it_is_back(
    broker: Stack, gateway: GatewayProcess
) -> None:
    def status(number: int) -> httpx.Response:
        return gateway.client.post("/v1/status/device-0001", content=b"%d" % number)

    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    until(lambda: "partition" in status(0).json(), 20)  # a slow broker's first one may be spooled
    admin.delete_topics([STATUS])[STATUS].result(30)
    try:
        until(lambda: "spooled" in status(1).json(), 10)  # its fate is unknown at first
        assert status(2).json()["spooled"]
        until(lambda: "topic_missing" in _stuck(gateway), 20)
        until(lambda: "partition" in gateway.post("others-go-on").json(), 20)
        gateway.kill()
        gateway.start()
        until(lambda: "partition" in gateway.post("others-go-on").json(), 20)
        until(lambda: "topic_missing" in _stuck(gateway), 20)
        assert status(3).json()["spooled"]

        def go_on_for_long() -> bool:
            """In one go: a broker that rests for a second has one of them spooled."""
            direct = [gateway.post("others-go-on").json() for _ in range(50)]
            return all("partition" in receipt for receipt in direct)

        until(go_on_for_long, 20)
    finally:
        row = next(topic for topic in FLOW.topics() if topic.name == STATUS)
        admin.create_topics([NewTopic(STATUS, 4, 1, config=row.config)])[STATUS].result(30)
    until(lambda: _is_drained(gateway), 30)
    until(lambda: "partition" in status(4).json(), 10)
    found = [message.value() for message in messages(broker, STATUS)]
    assert list(dict.fromkeys(found)) == [b"1", b"2", b"3", b"4"]


def _stuck(gateway: GatewayProcess) -> str:
    depth = gateway.client.get("/health").json()["checks"]["spool:depth"][0]
    output = str(depth.get("output", ""))
    return output.replace("Kafka has no such topic", "topic_missing") if STATUS in output else ""


def test_what_lay_in_the_spool_counts_by_its_receipt_and_is_not_late(
    broker: Stack, gateway: GatewayProcess
) -> None:
    name = f"watch-{time.time_ns()}"

    def say(status: bytes) -> httpx.Response:
        return gateway.client.post(f"/v1/status/{name}", content=b'{"status": "%s"}' % status)

    answers = [say(b"online")]
    time.sleep(0.1)
    broker.hold("kafka")
    try:
        answers += [say(b"offline"), say(b"online")]
        time.sleep(3)
    finally:
        broker.release("kafka")
    until(lambda: _is_drained(gateway), 30)
    answers.append(say(b"offline"))
    # the spool has a way of its own into Kafka, and that may be open before the gateway's
    until(lambda: _is_drained(gateway), 30)
    received = [from_rfc3339(answer.json()["received_at"]) for answer in answers]

    enrich = enriches(FLOW)
    payloads = [
        payload_of(message)
        for message in messages(broker, STATUS)
        if message.key() == name.encode()
    ]
    events = [
        read_event(Position("event.status_changed.v1", 0, n), enrich(payload, None).value or b"")  # type: ignore[arg-type]
        for n, payload in enumerate(payloads)
    ]
    first = {event.id: event for event in reversed(events)}
    told = [first[answer.json()["id"]] for answer in answers]
    spooled = [event.time_ms for event in told[1:3]]
    assert spooled == received[1:3]
    assert all(event.arrived_ms - event.time_ms > 2_000 for event in told[1:3])
    device = next(entity for entity in FLOW.entities if entity.name == "device")
    snapshot = Applier(device, 64).apply(name, None, events).snapshot
    assert snapshot is not None
    assert (snapshot.late, snapshot.clock_off) == (0, 0)
    assert snapshot.state["connection"] == "offline"


def test_what_kafka_refuses_for_good_is_told_and_can_be_sent_again(
    broker: Stack, gateway: GatewayProcess, tmp_path: Path
) -> None:
    name = f"large-{time.time_ns()}"
    _let_bodies_have(broker, 2_000)
    try:
        broker.hold("kafka")
        try:
            large = gateway.post(name, b"x" * 5_000)
            small = gateway.post(name, b"small")
            assert large.json()["spooled"] and small.json()["spooled"]
        finally:
            broker.release("kafka")
        until(lambda: _is_drained(gateway), 30)
        assert _bodies_of(broker, name) == [b"small"]
        health = gateway.client.get("/health").json()["checks"]
        assert "1 payloads" in health["spool:depth"][0]["output"]
        assert health["ledger:difference"][0]["setAside"] == 1
        gateway.stop()
        listed = _spool(broker, tmp_path, "list", "-o", "json").output
        assert large.json()["id"] in listed
        assert "record_too_large" in listed
        refused = _spool(broker, tmp_path, "replay")
        assert isinstance(refused.exception, StackError)
        assert large.json()["id"] in refused.output
        gateway.start()
        until(lambda: gateway.status("/readyz") == 200, 20)
        assert _set_aside(gateway) == 1
    finally:
        _let_bodies_have(broker, 8 * 1024 * 1024)
    # the broker takes a changed setting into use a moment after it was told
    replayed = "1 payloads are in Kafka now"
    until(lambda: replayed in _spool(broker, tmp_path, "replay").output, 20)
    assert _bodies_of(broker, name) == [b"small", b"x" * 5_000]
    ids = [dict(m.headers() or ())["ce_id"] for m in messages(broker, TELEMETRY)]
    assert large.json()["id"].encode() in ids
    until(lambda: _set_aside(gateway) == 0, 5)
    assert "0 payloads" in _spool(broker, tmp_path, "replay").output
    assert len(_bodies_of(broker, name)) == 2


def _set_aside(gateway: GatewayProcess) -> int:
    count: int = gateway.client.get("/health").json()["checks"]["ledger:difference"][0]["setAside"]
    return count


def _spool(broker: Stack, state_dir: Path, *arguments: str) -> Result:
    environment = {"HEADRACE_KAFKA_BOOTSTRAP": broker.kafka_bootstrap, "COLUMNS": "400"}
    command = ["spool", *arguments, "--state-dir", str(state_dir)]
    return CliRunner().invoke(cli.app, command, env=environment)


def _let_bodies_have(broker: Stack, bytes_max: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    entry = ConfigEntry(
        "max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, TELEMETRY, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
