"""Twelve readings in one CBOR payload, beside twelve JSON payloads of one.

    python -m benchmarks.several_events [--payloads 100000] [--enrich-alone]

A stack of its own; both kinds in turn, on a backlog that stands in the ingest topic when the clock
starts: until all events are on the event topic (enrich), folded (fold), and rows (persist). The
jobs share the machine, and an event costs fold and persist the same however it came; so what enrich
itself gains shows where it runs alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import httpx
import orjson
import psycopg
from confluent_kafka import Producer

from benchmarks.processes import cpu_s
from benchmarks.several_events_flow import FLOW
from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.settings import JobSettings, Settings

READINGS = 12
DEVICES = 10_000
EVENTS = "event.reading.v1"


def readings(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A device's twelve stand together."""
    now_ms = time.time_ns() // 1_000_000
    for n in range(number):
        for part in range(READINGS):
            at, value = now_ms + part, (n * READINGS + part) % 1000 / 10
            yield f"device-{n % DEVICES}", {"at": at, "value": value, "unit": "celsius"}


def payloads(kind: str, number: int) -> Iterator[tuple[str, bytes]]:
    together: list[dict[str, Any]] = []
    for device, reading in readings(number):
        if kind == "single":
            yield device, orjson.dumps(reading)
            continue
        together.append(reading)
        if len(together) == READINGS:
            yield device, cbor2.dumps(together)
            together.clear()


def load(bootstrap: str, topic: str, records: Iterator[tuple[str, bytes]]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "batch.size": 1_000_000,
        }
    )
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


class Reached:
    """How many events are at each stage."""

    def __init__(self, stack: Stack) -> None:
        kafka = Settings(kafka_bootstrap=stack.kafka_bootstrap).kafka
        self._events = LogOffsets(kafka, "headrace-benchmark", [EVENTS])
        self._done = {
            job: LogOffsets(kafka, f"headrace-{job}", [EVENTS]) for job in ("fold", "persist")
        }

    def now(self) -> dict[str, int]:
        done = {job: log.committed().offsets.get(EVENTS, {}) for job, log in self._done.items()}
        return {
            "enrich": sum(self._events.ends().values()),
            **{job: sum(offsets.values()) for job, offsets in done.items()},
        }


def measure(stack: Stack, reached: Reached, kind: str, number: int) -> dict[str, float]:
    stack.hold("spark")
    load(stack.kafka_bootstrap, f"ingest.{kind}.v1", payloads(kind, number))
    before = reached.now()
    stack.release("spark")
    while reached.now() == before:  # Spark starts
        time.sleep(0.1)
    began_s, wanted = time.monotonic(), number * READINGS
    took: dict[str, float] = {}
    while len(took) < len(before):
        for stage, count in reached.now().items():
            if stage not in took and count - before[stage] >= wanted:
                took[stage] = time.monotonic() - began_s
        time.sleep(0.2)
    return {stage: wanted / seconds for stage, seconds in took.items()}


def enrich_alone(settings: dict[str, str], number: int, rounds: int) -> None:
    """No other job; each backlog is read by a job that has just started, and the clock runs from
    its first event to its last."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder) / "servers", random_ports=True, services=("kafka",)) as stack,
    ):
        its = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=Path(folder))
        ensure_topics(FLOW, its)
        events = LogOffsets(its.kafka, "headrace-benchmark", [EVENTS])
        job = {
            **os.environ,
            **settings,
            **job_environment(),
            "HEADRACE_KAFKA_BOOTSTRAP": its.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(its.state_dir),
        }
        for _ in range(rounds):
            rates, cpu_us = {}, {}
            for kind in ("single", "batch"):
                load(stack.kafka_bootstrap, f"ingest.{kind}.v1", payloads(kind, number))
                before = sum(events.ends().values())
                wanted = before + number * READINGS
                command = [sys.executable, "-m", "stream_jobs", "enrich"]
                with (Path(folder) / "log").open("ab") as log:
                    process = subprocess.Popen(command, env=job, stdout=log, stderr=log)
                while sum(events.ends().values()) == before:
                    time.sleep(0.02)
                began_s, used_s = time.monotonic(), cpu_s(process.pid)
                first = sum(events.ends().values())
                while sum(events.ends().values()) < wanted:
                    time.sleep(0.02)
                rates[kind] = (wanted - first) / (time.monotonic() - began_s)
                cpu_us[kind] = (cpu_s(process.pid) - used_s) / (wanted - first) * 1e6
                time.sleep(3)  # it says how far it is
                process.terminate()
                process.wait()
            print(
                f"enrich alone {rates['single']:9,.0f} events/s one a payload, "
                f"{rates['batch']:9,.0f} twelve: {rates['batch'] / rates['single']:.2f} x; CPU an "
                f"event {cpu_us['single']:.1f} and {cpu_us['batch']:.1f} us",
                flush=True,
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--payloads", type=int, default=100_000, help="of twelve, a round")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--enrich-alone", action="store_true")
    given = options.parse_args()
    settings = {
        "HEADRACE_FLOW": "benchmarks.several_events_flow:FLOW",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1])]),
    }
    if given.enrich_alone:
        enrich_alone(settings, given.payloads, given.rounds)
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder), random_ports=True, settings=settings) as stack,
    ):
        reached = Reached(stack)
        for kind in ("single", "batch"):
            measure(stack, reached, kind, 2_000)  # warms all up
        for _ in range(given.rounds):
            rates = {
                kind: measure(stack, reached, kind, given.payloads) for kind in ("single", "batch")
            }
            for stage in ("enrich", "fold", "persist"):
                single, batch = rates["single"][stage], rates["batch"][stage]
                print(
                    f"{stage:8} {single:9,.0f} events/s one a payload, {batch:9,.0f} twelve: "
                    f"{batch / single:.2f} x",
                    flush=True,
                )
        time.sleep(10)
        with psycopg.connect(stack.postgres_url) as connection:
            rows = connection.execute(
                "SELECT topic, sum(ends - begins)::bigint, sum(stored)::bigint, "
                "sum(difference)::bigint FROM headrace.ledger_partition WHERE of_payloads "
                "GROUP BY topic"
            ).fetchall()
        print("ledger: topic, received, stored, difference:", rows)
        answer = httpx.get(f"{stack.gateway_url}/state/device/device-0", timeout=10).json()
        print("device-0:", answer["state"])


if __name__ == "__main__":
    main()
