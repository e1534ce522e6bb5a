"""What it gives and costs to divide states among gateways: disk, time to read them, GET /state.

    python -m benchmarks.divided_states --states 200000 --gateways 4 --copies 2

The same gateways on the same topic, once with all states at each, once divided; all on the machine
that also asks. Whoever asks does so one request after the other, at the first gateway: where states
are divided, of those that it holds and of those that it asks others for. Then the second gateway is
killed, while all states are asked for in turn.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
from confluent_kafka import Producer

from benchmarks.processes import cpu_s
from clients.kafka.create_topics import ensure_topics
from gateway.state_view.parts import SIGN
from gateway.state_view.peer_protocol import HELD_PATH
from gateway.state_view.reader import StateView
from gateway.state_view.store import view_path
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.sample_domain.device import initial
from shared.settings import JobSettings
from tests.gateway.support import GatewayProcess

TOPIC, PARTITIONS = FLOW.entities[0].topic, 8
TOKEN = "of-gateways"
READY_WITHIN_S, AFTER_KILL_S = 600.0, 20.0


class Asked(NamedTuple):
    took_ms: list[float]
    cpu_ms: float

    def told(self) -> str:
        ranks = statistics.quantiles(self.took_ms, n=100)
        return f"{ranks[49]:.2f} | {ranks[98]:.2f} | {self.cpu_ms:.2f}"


def put(bootstrap: str, keys: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        meta = {"version": 3, "event_time_ms": None, "rings": {"reading": "x" * 400}}
        while True:
            try:
                producer.produce(TOPIC, orjson.dumps({**initial(key), "_meta": meta}), key)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


@contextmanager
def gateways(bootstrap: str, folder: Path, count: int, copies: int) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        found = []
        for number in range(count):
            its = {"state_copies": copies, "peer_token": TOKEN, "partitions": PARTITIONS}
            gateway = GatewayProcess(bootstrap, folder / str(number), **its)
            gateway._environment["HEADRACE_PEER_URL"] = f"http://127.0.0.1:{gateway.port}"
            found.append(stack.enter_context(gateway))
        yield found


def held(gateway: GatewayProcess) -> set[str]:
    answer = gateway.client.get(HELD_PATH, headers={"authorization": f"Bearer {TOKEN}"})
    return {*answer.json()["parts"]}


def ready(count: int, its: Sequence[GatewayProcess], folder: Path, copies: int) -> bool:
    views = [StateView(folder / str(number)) for number in range(len(its))]
    try:
        if not copies:
            return all(view.topic_progress(TOPIC).warm for view in views)
        parts = [part for one in its for part in held(one) if SIGN in part]
        return len({*parts}) == count and len(parts) == count * copies
    finally:
        for view in views:
            view.close()


def ask(its: Sequence[GatewayProcess], keys: Sequence[str]) -> Asked:
    client, took_ms = its[0].client, []
    before_s = sum(cpu_s(one.process.pid) for one in its if one.process)
    for key in keys:
        begun_s = time.perf_counter()
        answer = client.get(f"/state/{key}")
        took_ms.append((time.perf_counter() - begun_s) * 1000)
        assert answer.status_code == 200, answer.text
    used_s = sum(cpu_s(one.process.pid) for one in its if one.process) - before_s
    return Asked(took_ms, used_s * 1000 / len(keys))


def ask_while_one_is_killed(its: Sequence[GatewayProcess], keys: Sequence[str]) -> str:
    its[1].kill()
    begun_s, slowest_ms, refused, count = time.monotonic(), 0.0, 0, 0
    while time.monotonic() - begun_s < AFTER_KILL_S:
        one_s = time.perf_counter()
        try:
            refused += its[0].client.get(f"/state/{random.choice(keys)}").status_code != 200
        except httpx.TransportError:
            refused += 1
        slowest_ms = max(slowest_ms, (time.perf_counter() - one_s) * 1000)
        count += 1
    return f"{refused} of {count:,} not answered, the slowest took {slowest_ms:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--states", type=int, default=200_000)
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--questions", type=int, default=3_000)
    given = parser.parse_args()
    keys = [f"device-{number:07}" for number in range(given.states)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Stack(folder / "stack", random_ports=True, services=("kafka",)) as stack:
            bootstrap = stack.kafka_bootstrap
            ensure_topics(FLOW, JobSettings(kafka_bootstrap=bootstrap, partitions=PARTITIONS))
            put(bootstrap, keys)
            for copies in (0, given.copies):
                measure(bootstrap, folder / f"copies-{copies}", copies, keys, given)


def measure(bootstrap: str, folder: Path, copies: int, keys: list[str], given: Any) -> None:
    begun_s = time.monotonic()
    with gateways(bootstrap, folder, given.gateways, copies) as its:
        while not ready(PARTITIONS, its, folder, copies):
            assert time.monotonic() - begun_s < READY_WITHIN_S
            time.sleep(0.5)
        print(f"\n{copies or 'all'} copies: all is read after {time.monotonic() - begun_s:.1f} s")
        paths = [view_path(folder / str(number)) for number in range(given.gateways)]
        sizes = [sum(one.stat().st_size for one in p.parent.iterdir()) >> 20 for p in paths]
        print(f"MiB of disk at each: {', '.join(map(str, sizes))}")
        print("| GET /state at one gateway | p50 ms | p99 ms | CPU ms, all gateways |")
        print("|---|---|---|---|")
        for _ in range(2):
            for name, some in groups(folder, keys, copies).items():
                print(f"| {name} | {ask(its, random.sample(some, given.questions)).told()} |")
        if copies:
            print(f"one of them killed: {ask_while_one_is_killed(its, keys)}")


def groups(folder: Path, keys: list[str], copies: int) -> dict[str, list[str]]:
    if not copies:
        return {"held here": keys}
    view = StateView(folder / "0")
    try:
        own = {key for part in view.progress() if SIGN in part for key in _keys_of(view, part)}
    finally:
        view.close()
    return {"held here": sorted(own), "held elsewhere": [key for key in keys if key not in own]}


def _keys_of(view: StateView, part: str) -> list[str]:
    return [key.decode() for key in view.values(part)]


if __name__ == "__main__":
    main()
