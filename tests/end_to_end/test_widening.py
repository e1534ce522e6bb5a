"""An ingest topic gets more partitions while devices post to it, and processes are killed: each
entity keeps its order, each payload counts once."""

import itertools
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from local_stack.verbs.ledger import from_database
from shared.consumer_groups import OPERATOR
from shared.kafka_access import KafkaAccess
from tests.client_threads import Clients, ClientThread
from tests.end_to_end.conftest import Running
from tests.kafka_log import read_topic
from tests.killed import kill
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

TOPIC = "ingest.telemetry.v1"
# every tenth is of a model that names its field otherwise
DEVICES = [f"device-{number:04}" for number in range(451, 465) if number % 10]
_CLIENTS = 3
_PAUSE_S = 0.02
_REPEATED_EVERY, _BACK = 4, 3


class Sent(NamedTuple):
    device: str
    number: int

    @property
    def value(self) -> float:
        """No other payload's of the device."""
        return round(self.number % 100 + self.number / 1_000_000, 6)


def _number(value: float) -> int:
    return round(value % 1 * 1_000_000)


class Client(ClientThread):
    """Sends each payload until it has a receipt, then the next one of its device, and now and then
    an earlier one once more: it may have gone to another partition than its repeat."""

    def __init__(self, stack: Stack, devices: Sequence[str]) -> None:
        super().__init__()
        self._stack, self._devices = stack, devices
        self.receipts: list[tuple[Sent, dict[str, Any]]] = []

    def run(self) -> None:
        with httpx.Client(timeout=10) as http:
            for number in itertools.count(1):
                for device in self._devices:
                    if self.over.is_set():
                        return
                    self.receipts.append(
                        (Sent(device, number), self._accepted(http, device, number))
                    )
                    if number % _REPEATED_EVERY == 0:
                        self._accepted(http, device, number - _BACK)
                    time.sleep(_PAUSE_S)

    def _accepted(self, http: httpx.Client, device: str, number: int) -> dict[str, Any]:
        url = f"{self._stack.gateway_url}/v1/telemetry/{device}"
        body = orjson.dumps({"value": Sent(device, number).value})
        while True:
            try:
                answer = http.post(url, content=body, headers={"idempotency-key": f"w{number}"})
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 202:
                return dict(answer.json())
            if answer.status_code != 503:
                self.wrong.append(f"{answer.status_code} {answer.text}")
            time.sleep(0.1)


class Load(Clients[Client]):
    def __init__(self, stack: Stack) -> None:
        super().__init__([Client(stack, DEVICES[n::_CLIENTS]) for n in range(_CLIENTS)])

    def receipts(self) -> list[tuple[Sent, dict[str, Any]]]:
        return [one for client in self.clients for one in [*client.receipts]]

    def is_written_directly(self) -> bool:
        """All that came last."""
        return all("offset" in client.receipts[-1][1] for client in self.clients)


class Verb:
    """As its own process, which can be killed."""

    def __init__(self, stack: Stack) -> None:
        command = [sys.executable, "-m", "local_stack", "topics", "widen", TOPIC, "--to", "8"]
        self.process = subprocess.Popen(
            [*command, "--state-dir", str(stack.state_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def until_it_says(self, what: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if what in line:
                return
        raise AssertionError(self.said)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=60)

    def ends_well(self) -> None:
        self.said += self.process.communicate(timeout=180)[0]
        assert self.process.returncode == 0, self.said


def _partitions(stack: Stack) -> int:
    with LogOffsets(KafkaAccess(stack.kafka_bootstrap), OPERATOR) as log:
        return log.partition_counts([TOPIC])[TOPIC]


def test_a_topic_is_widened_under_load_while_processes_are_killed(running: Running) -> None:
    stack = running.stack
    before = _partitions(stack)
    assert before == 4
    with Load(stack) as load:
        time.sleep(1)
        kill(stack, "spark")  # so the barrier is far away
        first = Verb(stack)
        first.until_it_says("accept into their spools")
        kill(stack, "gateway")
        running.eventually(lambda: any("spooled" in told for _, told in load.receipts()))
        first.kill()
        # the old partitions are those that the topic has
        running.eventually(load.is_written_directly)
        assert _partitions(stack) == before
        again = Verb(stack)
        again.until_it_says("accept into their spools")
        kill(stack, "gateway")
        again.ends_well()
        running.eventually(load.is_written_directly)
        time.sleep(1)
    assert _partitions(stack) == 8
    _judge(running, load)


def _judge(running: Running, load: Load) -> None:
    receipts = load.receipts()
    ids = {told["id"]: sent for sent, told in receipts}
    assert len(ids) == len(receipts)
    assert any(told.get("partition", 0) >= 4 for _, told in receipts)
    counts = Counter(sent.device for sent in ids.values())
    running.eventually(lambda: running.folded(dict(counts)))
    running.eventually(lambda: set(running.completions_of(set(ids))) == set(ids))
    assert running.rows_of(set(ids)) == len(ids)

    numbers = defaultdict(list)
    records = read_topic(running.stack.kafka_bootstrap, "event.reading.v1")
    for record in sorted(records, key=lambda record: record[:2]):
        event = orjson.loads(record.value or b"")
        if event["entity_id"] in counts:
            numbers[event["entity_id"]].append(_number(event["data"]["value"]))
    for device, its in numbers.items():
        firsts = list(dict.fromkeys(its))
        assert firsts == sorted(firsts), device
        assert len(firsts) == counts[device]

    expected = expected_states([e for e in running.events() if e["entity_id"] in counts])
    assert {device: state["count"] for device, state in expected.items()} == counts
    for device, state in expected.items():
        shown = running.snapshots()[device]
        assert {name: value for name, value in shown.items() if name != "_meta"} == state, device
    closed = {"in_flight": 0, "difference": 0}
    running.eventually(lambda: closed.items() <= _ledger(running).items())
    (check,) = running.http.get("/health").json()["checks"]["kafka:partitions"]
    assert check["status"] == "pass", check


def _ledger(running: Running) -> dict[str, Any]:
    return from_database(None, None, time.time_ns() // 1_000_000, running.stack.state_dir)
