"""Several worker processes on a real broker, some of them killed, behave as one gateway."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from local_stack.run.stack import Stack
from tests.gateway.support import BUSY, GatewayProcess, until
from tests.kafka_log import read_topic

pytestmark = pytest.mark.stack

WORKERS = 3
CLIENTS = 12
TOPIC = "ingest.telemetry.v1"


@pytest.fixture
def real(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, gateway_workers=WORKERS) as gateway:
        until(lambda: ready(gateway) == WORKERS, 30)
        yield gateway
        if gateway.process and gateway.process.poll() is None:
            gateway.kill()


def measured(gateway: GatewayProcess) -> dict[str, float]:
    """Each metric, added up over its labels."""
    found: dict[str, float] = {}
    try:
        # a connection of its own, so that any of the workers may be asked
        text = httpx.get(f"http://127.0.0.1:{gateway.port}/metrics", timeout=30).text
    except httpx.TransportError:
        return found
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("headrace_gateway_")
            found[name] = found.get(name, 0.0) + sample.value
    return found


def ready(gateway: GatewayProcess) -> float:
    return measured(gateway).get("workers_ready", 0.0)


def children_of(pid: int) -> dict[int, str]:
    """Their command lines by their pids."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(one): Path(f"/proc/{one}/cmdline").read_text() for one in pids}


def workers_of(gateway: GatewayProcess) -> list[int]:
    assert gateway.process is not None
    return [pid for pid, line in children_of(gateway.process.pid).items() if ".worker" in line]


def is_gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


class Load:
    """Clients that POST one payload after the other until there is nobody left to answer."""

    def __init__(self, gateway: GatewayProcess, entity: str) -> None:
        self.accepted: set[str] = set()
        self.others: list[int] = []
        self._url = f"http://127.0.0.1:{gateway.port}/v1/telemetry/{entity}"
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._post, args=(n,)) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """AssertionError where a request hangs."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in self._threads)

    def _post(self, number: int) -> None:
        with httpx.Client(timeout=15) as client:
            while not self._is_over.is_set():
                try:
                    answer = client.post(f"{self._url}-{number}", content=b'{"value": 1}')
                except (httpx.NetworkError, httpx.RemoteProtocolError):
                    self._is_over.wait(0.05)
                    continue
                if answer.status_code == 202:
                    self.accepted.add(orjson.loads(answer.content)["id"])
                else:
                    self.others.append(answer.status_code)


def ids_in(broker: Stack) -> set[str]:
    records = read_topic(broker.kafka_bootstrap, TOPIC)
    return {record.headers["ce_id"].decode() for record in records}


def test_every_202_is_in_the_topic_though_one_is_killed_and_all_are_ended_under_load(
    broker: Stack, real: GatewayProcess
) -> None:
    assert real.process is not None
    everyone = children_of(real.process.pid)
    load = Load(real, "worked")
    until(lambda: len(load.accepted) > 200, 30)
    os.kill(workers_of(real)[0], signal.SIGKILL)
    until(lambda: measured(real).get("worker_restarts_total") == 1, 20)
    until(lambda: ready(real) == WORKERS, 30)
    everyone |= children_of(real.process.pid)
    # what the killed one has counted is not forgotten
    before = len(load.accepted)
    assert measured(real)["payloads_accepted_total"] >= before
    until(lambda: len(load.accepted) > before + 200, 30)

    real.process.terminate()
    assert real.process.wait(20 * BUSY) == 0
    load.end()
    assert load.others == []
    assert load.accepted <= ids_in(broker)
    until(lambda: all(is_gone(pid) for pid in everyone), 5)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", real.port))
        again.listen()


def test_whichever_is_asked_answers_for_all(real: GatewayProcess) -> None:
    def of_its_own() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{real.port}", timeout=15) as client:
            assert client.post("/v1/telemetry/dealt", content=b"{}").status_code == 202

    for _ in range(100):
        of_its_own()
    assert measured(real)["payloads_accepted_total"] == 100
    health = real.client.get("/health").json()["checks"]["gateway:workers"]
    assert [(check["status"], check["observedValue"]) for check in health] == [("pass", WORKERS)]


def test_nothing_is_left_behind_when_the_parent_is_killed(real: GatewayProcess) -> None:
    assert real.process is not None
    children = children_of(real.process.pid)
    assert len(children) == WORKERS + 1  # and the view's one writer
    real.kill()
    until(lambda: all(is_gone(pid) for pid in children), 5)
    assert real.status("/livez") is None


def test_what_a_device_may_send_is_the_same_however_many_workers_it_meets(
    broker: Stack, tmp_path: Path
) -> None:
    limit = {"rate_per_device": 0.01, "rate_burst_s": 500}  # five, and then one in 100 s
    with GatewayProcess(
        broker.kafka_bootstrap, tmp_path, gateway_workers=WORKERS, **limit
    ) as gateway:
        until(lambda: ready(gateway) == WORKERS, 30)
        url = f"http://127.0.0.1:{gateway.port}/v1/telemetry/limited"
        # each on a connection of its own, so that the kernel deals them out
        answers = [httpx.post(url, content=b"{}", timeout=15).status_code for _ in range(40)]
        assert answers[:5] == [202] * 5
        assert set(answers[5:]) <= {429, 202}
        assert answers.count(202) <= 6
