"""From a payload on its ingest topic to the state that has it, at a fixed rate.

    python -m benchmarks.state_latency --per-s 2000 --seconds 60

The gateway, enrich and fold on a broker of their own, with the flow that the peers have, all on the
machine that also makes the load. Three waits, each from when the payload was produced: until a
snapshot that has it stands on the state topic, by the broker's clock; until `GET /state/{id}` has
it; until `GET /state/{id}?fresh=true` does. The last two are those of a few payloads a second,
asked for again and again; of all others nobody asks.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson
from confluent_kafka import Producer

from benchmarks.peer_contract import publish_areas
from benchmarks.profile_hops import payloads
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.machine.ports import free_port
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.settings import JobSettings
from tests.kafka_log import read_topic

_FLOW = "benchmarks.peer_flow:FLOW"
_ASKS_EVERY_S = 0.01
_GIVES_UP_S = 30.0
_ENDLESS = 10**9
_READY_WITHIN_S = 90.0


class Load(threading.Thread):
    """An open loop, and what it has sent."""

    def __init__(self, bootstrap: str, per_s: int, devices: int) -> None:
        super().__init__(daemon=True)
        self.ends_at_s = float("inf")
        self.sent_s: defaultdict[str, list[float]] = defaultdict(list)
        self.last = ""  # the device that sent last
        self._per_s, self._devices = per_s, devices
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 1,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
            }
        )

    def run(self) -> None:
        topic = load_flow(_FLOW).endpoints[0].topic
        begun_s = time.time()
        for number, (device, fields) in enumerate(payloads(_ENDLESS, self._devices)):
            due_s = begun_s + number / self._per_s
            if due_s >= self.ends_at_s:
                break
            early_s = due_s - time.time()
            if early_s > 0.002:
                time.sleep(early_s)
            self._producer.produce(topic, orjson.dumps(fields), device)
            self.sent_s[device].append(time.time())
            self.last = device
            if number % 50 == 0:
                self._producer.poll(0)
        assert self._producer.flush(60) == 0


async def ask(load: Load, url: str, per_s: float, begins_s: float) -> dict[str, list[float]]:
    """How long it took, by what was asked; "not fresh" where the answer was a mere snapshot."""
    took: dict[str, list[float]] = defaultdict(list)

    async def follow(client: httpx.AsyncClient, query: str) -> None:
        device = load.last
        number = len(load.sent_s[device])
        sent_s = load.sent_s[device][number - 1]
        while time.time() - sent_s < _GIVES_UP_S:
            answer = await client.get(f"/state/{device}{query}")
            state = orjson.loads(answer.content)
            if answer.status_code == 200 and state["state"]["count"] >= number:
                took[query].append(time.time() - sent_s)
                if not state.get("fresh", True):
                    took["not fresh"].append(time.time() - sent_s)
                return
            await asyncio.sleep(_ASKS_EVERY_S)
        took[query].append(_GIVES_UP_S)

    async with httpx.AsyncClient(base_url=url, timeout=_GIVES_UP_S) as client:
        asking = set()
        fresh = False
        while load.is_alive():
            if time.time() >= begins_s:
                query = "?fresh=true" if fresh else ""
                asking.add(asyncio.create_task(follow(client, query)))
                fresh = not fresh
            elif load.last:
                await client.get(f"/state/{load.last}?fresh=true")  # so that its tail is followed
            await asyncio.sleep(1 / per_s)
        await asyncio.gather(*asking)
    return took


def on_the_topic(bootstrap: str, load: Load, begins_s: float) -> list[float]:
    took, known = [], Counter[str]()
    for record in read_topic(bootstrap, load_flow(_FLOW).entities[0].topic):
        device = record.key.decode()
        count = orjson.loads(record.value or b"{}").get("count", 0)
        for sent_s in load.sent_s[device][known[device] : count]:
            if sent_s >= begins_s:
                took.append(record.timestamp_ms / 1000 - sent_s)
        known[device] = max(known[device], count)
    return took


@contextmanager
def _process(environment: Mapping[str, str], log: Path, *command: str) -> Iterator[None]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env=environment, stdout=file, stderr=file
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def _wait_until_folded(url: str, load: Load) -> None:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            if load.last and httpx.get(f"{url}/state/{load.last}").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    sys.exit(f"there was no state after {_READY_WITHIN_S:g} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-s", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60, help="counted")
    parser.add_argument("--warm-up", type=float, default=40, help="of load after the first state")
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--asked-per-s", type=float, default=2)
    options = parser.parse_args()
    os.environ["HEADRACE_FLOW"] = _FLOW
    with tempfile.TemporaryDirectory(prefix="headrace-latency-") as name:
        run(Path(name), options)
    return 0


def run(folder: Path, options: argparse.Namespace) -> None:
    with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
        settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder / "jobs")
        ensure_topics(load_flow(_FLOW), settings)
        publish_areas(
            settings, [(f"dev-{n:07}", f"area-{n % 20:02}") for n in range(options.devices)]
        )
        port = str(free_port())
        environment = {
            **os.environ,
            **job_environment(),
            "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
            "HEADRACE_GATEWAY_PORT": port,
            "HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace",
        }
        load = Load(stack.kafka_bootstrap, options.per_s, options.devices)
        url = f"http://127.0.0.1:{port}"
        with (
            _process(environment, folder / "gateway.log", "gateway"),
            _process(environment, folder / "jobs.log", "stream_jobs", "enrich", "fold"),
        ):
            load.start()
            _wait_until_folded(url, load)
            begins_s = time.time() + options.warm_up
            load.ends_at_s = begins_s + options.seconds
            took = asyncio.run(ask(load, url, options.asked_per_s, begins_s))
            time.sleep(5)
            found = {"on the state topic": on_the_topic(stack.kafka_bootstrap, load, begins_s)}
    found["GET /state/{id}"] = took[""]
    found["GET /state/{id}?fresh=true"] = took["?fresh=true"]
    print("| | payloads | p50 ms | p99 ms |\n|---|---|---|---|")
    for what, waits_s in found.items():
        ordered = sorted(waits_s)
        p50, p99 = (1000 * ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
        print(f"| {what} | {len(ordered):,} | {p50:,.0f} | {p99:,.0f} |")
    print(f"{len(took['not fresh'])} answers were not fresh")


if __name__ == "__main__":
    sys.exit(main())
