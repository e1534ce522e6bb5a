"""The same payloads through enrich and fold, in the driver's process and on clusters of Spark's.

    python -m benchmarks.workers --events 1000000 --workers 0 1 2 4

Real broker, real jobs, a real master and workers of two cores each. On a machine of few cores more
workers bring no rate: what an event costs of the processor should stay what it is. That is told of
the second half, past the starts: each executor is a JVM with Python workers of its own.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.fold_rate import StateTopic
from benchmarks.peer_contract import publish_areas
from benchmarks.processes import cpu_s, resident_mib
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.settings import JobSettings

FLOW_NAME = "benchmarks.peer_flow:FLOW"
_FILL = "x" * 160


def load(settings: JobSettings, topic: str, count: int, devices: int) -> None:
    names = [f"dev-{number:06}" for number in range(devices)]
    publish_areas(settings, [(name, f"area-{number % 20:02}") for number, name in enumerate(names)])
    options = {"linger.ms": 20, "queue.buffering.max.messages": 500_000, "enable.idempotence": True}
    producer = Producer(
        {"bootstrap.servers": settings.kafka_bootstrap, "partitioner": "murmur2_random", **options}
    )
    now_ms = time.time_ns() // 1_000_000
    for seq in range(count):
        device = names[seq % devices]
        its = {"deviceId": device, "seq": seq, "ts": now_ms, "v": seq % 100, "fill": _FILL}
        while True:
            try:
                producer.produce(topic, json.dumps(its).encode(), device)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0


class Cpu:
    """Of the jobs' driver, and of the cluster's master, workers and what these have started."""

    def __init__(self, driver: int, cluster: list[int]) -> None:
        self._driver, self._cluster = driver, cluster
        self._idle_s = sum(map(cpu_s, cluster))

    def used_s(self) -> float:
        return cpu_s(self._driver) + sum(map(cpu_s, self._cluster)) - self._idle_s

    def resident_mib(self) -> float:
        return sum(map(resident_mib, [self._driver, *self._cluster]))


def one(workers: int, arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    with Stack(folder, random_ports=True, services=("kafka",), workers=workers) as stack:
        partitions = str(arguments.state_partitions)
        settings = JobSettings(
            kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder / "jobs", flow=FLOW_NAME
        )
        flow = load_flow(FLOW_NAME)
        ensure_topics(flow, settings)
        load(settings, flow.endpoints[0].topic, arguments.events, arguments.devices)
        environment = {
            **os.environ,
            **job_environment(),
            "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
            "HEADRACE_FLOW": FLOW_NAME,
            "HEADRACE_STATE_PARTITIONS": partitions,
            **stack.cluster_settings,
        }
        names = ["spark-master", *(f"spark-worker-{n}" for n in range(1, workers + 1))]
        cluster = [pid for name in names if workers and (pid := stack.pid(name)) is not None]
        states = StateTopic(stack.kafka_bootstrap, flow.entities[0].topic)
        return {"workers": workers, **run(environment, cluster, states, arguments, folder)}


def run(
    environment: Mapping[str, str],
    cluster: list[int],
    states: StateTopic,
    arguments: argparse.Namespace,
    folder: Path,
) -> dict[str, object]:
    with (folder / "jobs.log").open("wb") as log:
        began_s = time.time()
        job = subprocess.Popen(
            [sys.executable, "-m", "stream_jobs", "enrich", "fold"],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    cpu = Cpu(job.pid, cluster)
    try:
        half = half_s = 0.0
        while (folded := states.take()) < arguments.events:
            if not half and folded * 2 >= arguments.events:
                half, half_s = folded, cpu.used_s()
            if job.poll() is not None or time.time() - began_s > arguments.timeout_s:
                sys.exit(f"the jobs did not finish: {(folder / 'jobs.log').read_text()[-2000:]}")
        used_s, resident = cpu.used_s(), cpu.resident_mib()
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        states.close()
    return {
        "first_state_s": round(states.first_ms / 1000 - began_s, 1),
        "second_half_events_per_s": round(states.second_half_rate(arguments.events)),
        "second_half_cpu_us_per_event": round((used_s - half_s) * 1e6 / (folded - half), 1),
        "cpu_us_per_event": round(used_s * 1e6 / arguments.events, 1),
        "resident_mib": round(resident),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="enrich and fold on 0, 1, 2, 4 workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--state-partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=600)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        for workers in arguments.workers:
            with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
                print(json.dumps(one(workers, arguments, Path(name))), flush=True)


if __name__ == "__main__":
    main()
