"""How long devices that were registered after their data wait for their states.

    python -m benchmarks.late_devices --devices 1000

A stack of its own, idle: first what it uses while nothing waits, then while all their payloads do.
Then they are registered, all in one transaction; and as many others, one after the other. Of each:
from the commit that registers it until the snapshot with all its payloads stands on the state
topic, by the broker's clock. After it none may be parked, out of order, or waiting.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg

from benchmarks.processes import cpu_s
from clients.postgres.grants import OWNER
from local_stack.servers.postgres_address import as_role
from tests.end_to_end.launcher import Launcher
from tests.kafka_log import read_topic

PAYLOADS = 5
_REGISTER = """INSERT INTO headrace.device (id, area, model)
               SELECT id, 'area-01', 'thermo-c' FROM unnest(%s::text[]) AS late (id)"""
_ONE_EVERY_S = 0.05
_IDLE_S = 20.0
_RESTS_S = 10.0


class Bench:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        status = launcher.status()
        self._kafka = status["kafka_bootstrap"]
        self._postgres = as_role(status["postgres_url"], OWNER)
        self._http = httpx.Client(base_url=launcher.gateway_url, timeout=60, trust_env=False)

    def idle_cores(self) -> float:
        began_s, began_cpu_s = time.monotonic(), cpu_s(self._launcher.pid)
        time.sleep(_IDLE_S)
        return (cpu_s(self._launcher.pid) - began_cpu_s) / (time.monotonic() - began_s)

    def send(self, devices: list[str]) -> None:
        for device in devices:
            answer = self._http.post(
                f"/v1/telemetry/{device}",
                content=b"\n".join(b'{"value": %d}' % n for n in range(PAYLOADS)),
                headers={"Content-Type": "application/x-ndjson"},
            )
            assert answer.json()["refused"] == 0, answer.text
        self._until(lambda: self._waiting() == len(devices))

    def register(self, devices: list[str], *, at_once: bool) -> list[float]:
        """Seconds until each was folded, the shortest first."""
        commits_ms: dict[str, int] = {}
        with psycopg.connect(self._postgres, autocommit=True) as connection:
            for some in [devices] if at_once else [[device] for device in devices]:
                connection.execute(_REGISTER, [some])
                commits_ms.update(dict.fromkeys(some, time.time_ns() // 1_000_000))
                if not at_once:
                    time.sleep(_ONE_EVERY_S)
        self._until(lambda: self._waiting() == 0)
        self._until(lambda: len(self._folded_ms(devices)) == len(devices))
        folded_ms = self._folded_ms(devices)
        self._print_ways(commits_ms)
        return sorted((folded_ms[device] - commits_ms[device]) / 1000 for device in devices)

    def _print_ways(self, commits_ms: dict[str, int]) -> None:
        began_ms = min(commits_ms.values())
        for topic in ("master.device.v1", "wake.enrich.v1", "event.reading.v1", "state.device.v1"):
            times = sorted(
                record.timestamp_ms - commits_ms.get((record.key or b"").decode(), began_ms)
                for record in read_topic(self._kafka, topic)
                if record.timestamp_ms >= began_ms
                and (record.key is None or record.key.decode() in commits_ms)
            )
            if times:
                print(
                    f"    {topic}: {len(times)} records, {times[0] / 1000:.1f} to "
                    f"{times[-1] / 1000:.1f} s, p50 {times[len(times) // 2] / 1000:.1f} s"
                )

    def _folded_ms(self, devices: list[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for record in read_topic(self._kafka, "state.device.v1"):
            device = (record.key or b"").decode()
            if record.value and json.loads(record.value)["count"] == PAYLOADS:
                found.setdefault(device, record.timestamp_ms)
        return {device: found[device] for device in devices if device in found}

    def _waiting(self) -> int:
        latest = {r.key: r.value for r in read_topic(self._kafka, "gate.enrich.v1")}
        told = [json.loads(value) for value in latest.values() if value]
        return sum(one["reason"] == "missing_device" for one in told)

    def disordered(self) -> int:
        offsets: defaultdict[bytes, list[int]] = defaultdict(list)
        for record in read_topic(self._kafka, "event.reading.v1"):
            offsets[record.key or b""].append(json.loads(record.value or b"")["origin"][2])
        return sum(places != sorted(places) for places in offsets.values())

    def parked(self) -> int:
        return len(read_topic(self._kafka, "dlq.enrich.v1"))

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < deadline_s, "it never came"
            time.sleep(2)  # to look costs time of the same cores


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-late-") as folder:
        launcher = Launcher(Path(folder) / "state")
        try:
            print(f"ready in {launcher.start():.0f} s", flush=True)
            return _measure(Bench(launcher), options.devices)
        finally:
            launcher.end()


def _measure(bench: Bench, count: int) -> int:
    names = (f"late-{number:05}" for number in itertools.count())
    time.sleep(_RESTS_S * 3)
    print(f"idle, nothing waits: {bench.idle_cores():.2f} cores", flush=True)
    for at_once in (True, False):
        devices = list(itertools.islice(names, count))
        bench.send(devices)
        time.sleep(_RESTS_S)
        print(f"idle, {count:,} devices wait: {bench.idle_cores():.2f} cores", flush=True)
        took_s = bench.register(devices, at_once=at_once)
        p50, p95 = (took_s[int(len(took_s) * part)] for part in (0.5, 0.95))
        how = "all at once" if at_once else f"one every {_ONE_EVERY_S * 1000:.0f} ms"
        print(
            f"{count:,} registered {how}: p50 {p50:.1f} s, p95 {p95:.1f} s, all {took_s[-1]:.1f} s",
            flush=True,
        )
    disordered, parked = bench.disordered(), bench.parked()
    print(f"{disordered} out of order, {parked} parked")
    return 1 if disordered or parked else 0


if __name__ == "__main__":
    sys.exit(main())
