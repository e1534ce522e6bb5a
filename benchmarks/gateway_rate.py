"""How much the gateway takes, beside a bare route, in one run: python -m benchmarks.gateway_rate

Each round starts every gateway once, in turn, on the same broker, and drives it by wrk in a closed
loop. The table has the medians of the rounds; what counts is the ratio to the bare one. A batch of
a hundred lines counts as a hundred; `state` reads. CPU is that of the command's whole tree, the
state view's writer included.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import gateway_requests as load
from benchmarks.processes import cpu_s, rss_mib
from local_stack.run.stack import Stack
from shared.flow import FLOW

RAW = "bare.telemetry"
SCRIPT = Path(__file__).with_name("post.lua")


class Kind(NamedTuple):
    command: Callable[[int], list[str]]
    requests: Callable[[str], Iterable[bytes]]  # given the broker's address
    settings: dict[str, str]
    topic: str | None  # where payloads go
    payloads: int = 1  # of a request


class Measured(NamedTuple):
    payloads_s: float
    payloads_cpu_s: float
    p50_ms: float
    p99_ms: float
    rss_mib: float


PATH = "/v1/telemetry"
LIMITS = dict.fromkeys(("rate_per_device", "rate_per_address", "rate_per_tenant"), "1e6")


def _gateway(
    requests: Callable[[str], Iterable[bytes]], payloads: int = 1, **settings: str
) -> Kind:
    command = [sys.executable, "-m", "gateway"]
    return Kind(lambda _: command, requests, settings, "ingest.telemetry.v1", payloads)


KINDS = {
    "bare": Kind(
        lambda port: [
            *(sys.executable, "-m", "uvicorn", "benchmarks.bare_gateway:app"),
            *("--host", "127.0.0.1", "--port", str(port), "--loop", "uvloop"),
            *("--http", "httptools", "--no-access-log", "--log-level", "warning"),
        ],
        lambda _: load.plain("/ingest"),
        {},
        RAW,
    ),
    "open": _gateway(lambda _: load.plain(PATH)),
    "token": _gateway(
        lambda bootstrap: load.with_tokens(PATH, load.make_tokens(bootstrap)),
        auth="token",
        **LIMITS,
    ),
    "hmac": _gateway(
        lambda bootstrap: load.signed(PATH, load.make_keys(bootstrap)),
        auth="hmac",
        credentials_key=load.CREDENTIALS_KEY,
        **LIMITS,
    ),
    "ndjson": _gateway(lambda _: load.batches(PATH), payloads=load.LINES),
    "state": Kind(
        lambda _: [sys.executable, "-m", "gateway"],
        lambda bootstrap: load.reads("/state", bootstrap),
        {},
        None,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--gateways", default=",".join(KINDS), help=f"out of {', '.join(KINDS)}")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        print("wrk is needed on PATH (Debian, Ubuntu: apt install wrk)", file=sys.stderr)
        return 2
    names = options.gateways.split(",")
    measured: dict[str, list[Measured]] = {name: [] for name in names}
    with _broker() as bootstrap:
        for _ in range(options.rounds):
            for name in names:
                found = _measure(KINDS[name], bootstrap, options.seconds, options.connections)
                print(f"{name:10} {found}", file=sys.stderr, flush=True)
                measured[name].append(found)
    print(_table(measured))
    return 0


@contextmanager
def _broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        nowhere = {"HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace"}
        with Stack(Path(folder), random_ports=True, services=("kafka",), settings=nowhere) as stack:
            topics = [NewTopic(topic.name, 4, 1, config=topic.config) for topic in FLOW.topics()]
            admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
            for made in admin.create_topics([*topics, NewTopic(RAW, 4, 1)]).values():
                made.result(30)
            yield stack.kafka_bootstrap


def _measure(kind: Kind, bootstrap: str, seconds: int, connections: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        # two of each: a signature is good only once
        warm_up, requests = Path(folder) / "warm-up", Path(folder) / "requests"
        for file in (warm_up, requests):
            load.write(file, kind.requests(bootstrap))
        with _running(kind, bootstrap, Path(folder), requests) as (pid, url):
            _wrk(url, warm_up, 3, connections)
            time.sleep(1)  # until what it left behind is no longer in flight
            begin_cpu_s, begin_end = cpu_s(pid), _end(bootstrap, kind.topic)
            told = _wrk(url, requests, seconds, connections)
            spent_s = cpu_s(pid) - begin_cpu_s
            stored = _end(bootstrap, kind.topic) - begin_end
            payloads = told["requests"] * kind.payloads
            if told["bad"] or (kind.topic and stored < payloads):
                sys.exit(f"{payloads} answered, {told['bad']} badly, {stored} stored")
            per_s, per_cpu_s = payloads / told["seconds"], payloads / spent_s
            return Measured(per_s, per_cpu_s, told["p50_ms"], told["p99_ms"], rss_mib(pid))


@contextmanager
def _running(
    kind: Kind, bootstrap: str, state_dir: Path, requests: Path
) -> Iterator[tuple[int, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BOOTSTRAP": bootstrap,
        "RAW": RAW,
        "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
        "HEADRACE_GATEWAY_PORT": str(port),
        "HEADRACE_STATE_DIR": str(state_dir),
        "HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace",
        **{f"HEADRACE_{name.upper()}": value for name, value in kind.settings.items()},
    }
    server = subprocess.Popen(kind.command(port), env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_it_accepts(port, requests)
        yield server.pid, url
    finally:
        server.terminate()
        server.wait(30)


def _wait_until_it_accepts(port: int, requests: Path) -> None:
    with requests.open("rb") as file:
        first = file.read(int(file.readline()))
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(first)
            if connection.recv(4096).startswith(b"HTTP/1.1 2"):
                time.sleep(2)  # the view's writer has started, too
                return
        time.sleep(0.2)
    sys.exit("the gateway does not take the first request")


def _wrk(url: str, requests: Path, seconds: int, connections: int) -> dict[str, float]:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(SCRIPT)]
    ended = subprocess.run(
        [*command, url, "--", str(requests)], capture_output=True, text=True, check=True
    )
    told: dict[str, float] = orjson.loads(ended.stdout.partition("\nJSON ")[2])
    return told


def _end(bootstrap: str, topic: str | None) -> int:
    if topic is None:
        return 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(4)]
    consumer.close()
    return sum(ends)


def _table(measured: dict[str, list[Measured]]) -> str:
    medians = {
        name: Measured(*(median(values) for values in zip(*rounds, strict=True)))
        for name, rounds in measured.items()
    }
    first = next(iter(medians.values()))
    lines = [
        "| gateway | payloads/s | x | payloads/CPU s | x | p50 ms | p99 ms | peak RSS MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, m in medians.items():
        lines.append(
            f"| {name} | {m.payloads_s:,.0f} | {m.payloads_s / first.payloads_s:.2f} "
            f"| {m.payloads_cpu_s:,.0f} | {m.payloads_cpu_s / first.payloads_cpu_s:.2f} "
            f"| {m.p50_ms:.2f} | {m.p99_ms:.2f} | {m.rss_mib:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
