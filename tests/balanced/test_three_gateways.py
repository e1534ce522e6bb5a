"""Three gateways, each a node of its own, behind the balancer of `up --gateways 3`. One is killed
while devices post, a fourth one comes; the oracle knows what was sent and what was answered."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import orjson
import pytest

from local_stack.run.stack import Stack
from local_stack.verbs.ledger import from_database
from tests.client_threads import Clients, ClientThread
from tests.end_to_end.conftest import Running
from tests.gateway.event_streams.support import frames_of
from tests.gateway.support import GatewayProcess
from tests.kafka_log import read_topic
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

DEVICES = [f"device-{number:04d}" for number in range(1, 9)]
_CLIENTS = 3
_PAUSE_S = 0.02
_REPEATED_EVERY = 7
KILLED = "gateway-2"


class Sent(NamedTuple):
    device: str
    number: int

    @property
    def value(self) -> float:
        """No other payload's."""
        return round(self.number % 100 + self.number / 1_000_000, 6)


class Gateways:
    """The stack, and all that any gateway of it has given a receipt for."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.running = stack, Running(stack)
        self.sent: dict[str, Sent] = {}  # by the id of the receipt
        self.numbers = itertools.count(1)
        self.further: list[str] = []  # gateways that the stack knows nothing of

    @property
    def urls(self) -> dict[str, str]:
        more = {f"further {number}": url for number, url in enumerate(self.further)}
        return {**self.stack.gateway_urls, "balancer": self.stack.gateway_url, **more}

    @contextmanager
    def beside(self, url: str) -> Iterator[None]:
        self.further.append(url)
        try:
            yield
        finally:
            self.further.remove(url)

    def judge(self) -> None:
        """Every receipt's payload is one row with one completion, and counts once in the state that
        each gateway shows."""
        running, ids = self.running, set(self.sent)
        running.eventually(lambda: set(running.completions_of(ids)) == ids)
        assert sorted(running.completions_of(ids)) == sorted(ids)
        query = "SELECT event_id, entity_id, (data->>'value')::float8 FROM headrace.event"
        rows = running.rows(f"{query} WHERE type = 'reading'")
        told = [(id_, sent.device, sent.value) for id_, sent in self.sent.items()]
        assert sorted(rows) == sorted(told)
        expected = expected_states(running.events())
        counts = Counter(sent.device for sent in self.sent.values())
        assert {device: state["count"] for device, state in expected.items()} == counts
        for url in self.urls.values():
            running.eventually(lambda url=url: shown(url) == expected)
        assert running.dead_letters() == 0
        wanted = {"stored": len(ids), "in_flight": 0, "difference": 0, "late_duplicate": 0}
        running.eventually(lambda: wanted.items() <= self._ledger().items())

    def _ledger(self) -> dict[str, Any]:
        return from_database(None, None, time.time_ns() // 1_000_000, self.stack.state_dir)


def shown(url: str) -> dict[str, Any]:
    """By a connection of its own each, so that a balancer may choose each time."""
    answers = {device: httpx.get(f"{url}/state/{device}", timeout=20) for device in DEVICES}
    return {
        device: answer.json()["state"]
        for device, answer in answers.items()
        if answer.status_code == 200
    }


class Client(ClientThread):
    """Sends each payload until it has a receipt, through the balancer, and some of them once more
    straight to a gateway: under their key they must be what they were."""

    def __init__(self, gateways: Gateways, devices: Sequence[str]) -> None:
        super().__init__()
        self._gateways, self._devices = gateways, devices

    def run(self) -> None:
        while not self.over.is_set():
            with httpx.Client(timeout=10) as http:  # so the balancer chooses for each round
                for device in self._devices:
                    self._send(http, Sent(device, next(self._gateways.numbers)))
            time.sleep(_PAUSE_S)

    def _send(self, http: httpx.Client, sent: Sent) -> None:
        id_ = self._until_accepted(http, sent)
        self._gateways.sent[id_] = sent
        if sent.number % _REPEATED_EVERY == 0:
            self._again(sent, id_)

    def _until_accepted(self, http: httpx.Client, sent: Sent) -> str:
        while True:
            try:
                answer = _post(http, self._gateways.stack.gateway_url, sent)
            except httpx.TransportError:
                continue
            if answer.status_code == 202:
                return str(answer.json()["id"])
            if answer.status_code != 503:
                self.wrong.append(f"{answer.status_code} {answer.text}")
            time.sleep(0.1)

    def _again(self, sent: Sent, id_: str) -> None:
        for name, url in self._gateways.urls.items():
            try:
                with httpx.Client(timeout=10) as http:
                    answer = _post(http, url, sent)
            except httpx.TransportError:  # it is killed just now
                continue
            if answer.status_code == 202 and answer.json()["id"] != id_:
                self.wrong.append(f"{name} calls it {answer.json()['id']}, and not {id_}")


def _post(http: httpx.Client, url: str, sent: Sent) -> httpx.Response:
    body, headers = orjson.dumps({"value": sent.value}), {"idempotency-key": f"k{sent.number}"}
    return http.post(f"{url}/v1/telemetry/{sent.device}", content=body, headers=headers)


class Load(Clients[Client]):
    def __init__(self, gateways: Gateways) -> None:
        super().__init__([Client(gateways, DEVICES[n::_CLIENTS]) for n in range(_CLIENTS)])


class Reader(threading.Thread):
    """Reads events, and goes on at the next gateway whenever its stream is cut."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self._urls = itertools.cycle(urls)
        self._over = threading.Event()
        self._last_id = ""
        self.streams = 0
        self.seen: list[tuple[str, str]] = []  # entity, id

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._read(next(self._urls))
            except httpx.TransportError:
                continue

    def _read(self, url: str) -> None:
        asked = {"type": "reading"} | ({} if self._last_id else {"from": "earliest"})
        headers = {"last-event-id": self._last_id} if self._last_id else {}
        with httpx.stream("GET", f"{url}/v1/events", params=asked, headers=headers) as answer:
            if answer.status_code != 200:
                time.sleep(0.1)
                return
            self.streams += 1
            for frame in frames_of(answer.iter_lines()):
                if frame.event == "message" and frame.data is not None:
                    self.seen.append((frame.data["entity_id"], frame.data["id"]))
                self._last_id = frame.id or self._last_id
                if self._over.is_set():
                    return

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(30)
        assert not self.is_alive()


def _by_entity(seen: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for entity, id_ in seen:
        found[entity].append(id_)
    return dict(found)


def written(stack: Stack) -> list[tuple[str, str]]:
    """All that is on the topic, in its order, repeats too."""
    records = read_topic(stack.kafka_bootstrap, "event.reading.v1")
    values = [orjson.loads(r.value or b"") for r in sorted(records, key=lambda r: r[:2])]
    return [(value["entity_id"], value["id"]) for value in values]


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    for name in ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_POSTGRES_URL"):
        os.environ.pop(name, None)
    services = ("kafka", "postgres", "gateway", "spark", "relay")
    settings = {
        **{"HEADRACE_EVENT_HEARTBEAT_S": "1", "HEADRACE_SPOOL_AFTER_S": "1"},
        # what is sent again lies in another spool, and comes after many others
        "HEADRACE_ID_RING_SIZE": "2000",
    }
    folder = tmp_path_factory.mktemp("gateways")
    with Stack(
        folder, random_ports=True, services=services, settings=settings, gateways=3
    ) as stack:
        gateways = Gateways(stack)
        yield gateways
        gateways.running.http.close()


def test_a_killed_gateway_loses_nothing_and_a_new_one_knows_all(
    gateways: Gateways, tmp_path: Path
) -> None:
    stack = gateways.stack
    each = stack.gateway_urls
    pid = stack.pid(KILLED)
    assert pid is not None
    # it goes on at another one when this one is killed
    with Reader([each[KILLED], each["gateway-3"], each["gateway"]]) as reader:
        fourth = GatewayProcess(stack.kafka_bootstrap, tmp_path, event_heartbeat_s=1)
        with fourth, gateways.beside(f"http://127.0.0.1:{fourth.port}"):
            with Load(gateways):
                gateways.running.eventually(lambda: bool(reader.seen))
                os.kill(pid, signal.SIGKILL)
                gateways.running.eventually(lambda: stack.pid(KILLED) not in (None, pid))
                # the one that is back, and the new one, have their turns, too
                gateways.running.eventually(lambda: all(map(accepted, gateways.urls.values())))
            gateways.judge()
        stream = written(stack)
        gateways.running.eventually(lambda: len(reader.seen) >= len(stream))
    assert reader.streams >= 2
    assert _by_entity(reader.seen) == _by_entity(stream)


def test_what_a_killed_gateway_had_spooled_comes_when_it_is_back(gateways: Gateways) -> None:
    stack, running = gateways.stack, gateways.running
    each = stack.gateway_urls
    before = shown(stack.gateway_url)
    with held(stack, "kafka"):
        with Load(gateways):
            running.eventually(lambda: all(spooled(url) > 10 for url in each.values()))
            pid = stack.pid(KILLED)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            running.eventually(lambda: stack.pid(KILLED) not in (None, pid))
            running.eventually(lambda: spooled(each[KILLED]) > 10)
        # from their disks, with Kafka away
        assert [shown(url) for url in gateways.urls.values()] == [before] * 4
    running.eventually(lambda: not any(spooled(url) for url in each.values()))
    gateways.judge()


def test_while_a_gateway_is_down_the_others_have_its_turns(gateways: Gateways) -> None:
    known = shown(gateways.stack.gateway_url)
    with held(gateways.stack, KILLED):
        assert [shown(gateways.stack.gateway_url) for _ in range(2)] == [known] * 2


def test_all_gateways_go_to_more_partitions_at_one_moment(gateways: Gateways) -> None:
    stack, topic = gateways.stack, "ingest.telemetry.v1"
    verb = [sys.executable, "-m", "local_stack", "topics", "widen", topic, "--to", "8"]
    with Load(gateways):
        time.sleep(2)
        command = [*verb, "--state-dir", str(stack.state_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        gateways.running.eventually(lambda: not any(map(spooled, stack.gateway_urls.values())))
        time.sleep(2)
    partitions = defaultdict(list)
    records = read_topic(stack.kafka_bootstrap, topic)
    for record in sorted(records, key=lambda record: record.timestamp_ms):
        partitions[record.key].append(record.partition)
    ways = {
        key: [number for number, _ in itertools.groupby(its)] for key, its in partitions.items()
    }
    assert {len(way) for way in ways.values()} == {1, 2}  # some move, and once
    assert all(way[0] < 4 and way[-1] % 4 == way[0] for way in ways.values())
    gateways.judge()


def test_each_gateway_has_a_spool_and_a_view_of_its_own(gateways: Gateways) -> None:
    for url in gateways.stack.gateway_urls.values():
        gateways.running.eventually(lambda url=url: accepts(url))
        shown(url)  # so it has opened them
    pids = {name: gateways.stack.pid(name) for name in gateways.stack.gateway_urls}
    for what in ("/view/state.sqlite", "/topics/ingest.telemetry.v1/positions"):
        files = [
            {file for file in _open_files(pid) if file.endswith(what)} for pid in pids.values()
        ]
        assert len(set.union(*files)) == sum(map(len, files)) == len(pids)


def _open_files(pid: int | None) -> set[str]:
    """Those that it has mapped, too."""
    process = Path(f"/proc/{pid}")
    mapped = {line.split()[-1] for line in (process / "maps").read_text().splitlines()}
    return mapped | {str(file.readlink()) for file in (process / "fd").iterdir()}


@contextmanager
def held(stack: Stack, name: str) -> Iterator[None]:
    stack.hold(name)
    try:
        yield
    finally:
        stack.release(name)


def accepts(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


def accepted(url: str) -> float:
    """Since it was started; 0 where it does not answer."""
    try:
        said = httpx.get(f"{url}/metrics", timeout=10).text.splitlines()
    except httpx.TransportError:
        return 0
    name = "headrace_gateway_payloads_accepted_total{"
    return sum(float(line.rpartition(" ")[2]) for line in said if line.startswith(name))


def spooled(url: str) -> int:
    """0 where it does not answer."""
    try:
        checks = httpx.get(f"{url}/health", timeout=10).json()["checks"]
    except httpx.TransportError:
        return 0
    return int(checks["spool:depth"][0]["observedValue"])
