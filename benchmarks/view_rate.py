"""How fast views work off a backlog, beside the same SQL in plain Structured Streaming.

    python -m benchmarks.view_rate --bids 1000000 [--queries q0 q7] [--rounds 2]

Real broker. Of each query a view (`python -m stream_jobs views`) and a plain query
(`plain_view.py`) read the same topics in turn, each in a process of its own, with the same settings
of Spark and at most as many records in a batch. The rate is that from the end of the first batch to
the end of the one that has the last record, as Spark's own checkpoint has them.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from benchmarks.nexmark_flow import FLOW, VIEWS, flow_of
from benchmarks.processes import cpu_s
from clients.kafka.connect import admin
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.downloads import fetch_for_tests
from local_stack.machine.java import find_java
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.ids import fresh_event_id
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_offsets import told_of_batch

_STATES = "OR", "ID", "CA", "WA", "NY", "TX"
_TIMEOUT_S = 900


class Event(NamedTuple):
    type: str
    key: str
    data: dict[str, object]


def events(bids: int) -> Iterator[Event]:
    """One person and three auctions to 46 bids, as NEXMark has them."""
    dice = random.Random(11)
    for number in range(bids // 46):
        person = f"person-{number:07}"
        yield Event(
            "person",
            person,
            {
                "name": f"name {number}",
                "email": f"{person}@example.org",
                "city": f"city {number % 97}",
                "state": dice.choice(_STATES),
            },
        )
        for of_person in range(3):
            seller = f"person-{max(0, number - dice.randrange(20)):07}"
            data = {"item": "x" * 20, "initial": 100, "reserve": 200, "seller": seller}
            its = f"auction-{3 * number + of_person:08}"
            yield Event("auction", its, {**data, "category": 10 + dice.randrange(5)})
        for _ in range(46):
            bidder = f"person-{max(0, number - dice.randrange(1_000)):07}"
            auction = f"auction-{max(0, 3 * number - dice.randrange(100)):08}"
            data = {"auction": auction, "price": dice.randrange(100, 10_000_000)}
            yield Event(
                "bid", bidder, {**data, "channel": "Google", "url": "https://example.org/x"}
            )


def load(bootstrap: str, bids: int) -> dict[str, int]:
    """The number of each type."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    counts: dict[str, int] = {}
    for number, event in enumerate(events(bids)):
        now_ms = time.time_ns() // 1_000_000
        value = {
            "id": fresh_event_id(),
            "type": event.type,
            "entity_id": event.key,
            "time_ms": now_ms,
            "arrived_ms": now_ms,
            "origin": ["ingest.nexmark.v1", 0, number],
            "data": event.data,
        }
        while True:
            try:
                producer.produce(FLOW.event_type(event.type).topic, json.dumps(value), event.key)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        counts[event.type] = counts.get(event.type, 0) + 1
    assert producer.flush(120) == 0
    return counts


class Run(NamedTuple):
    events_per_s: float
    cpu_us_per_event: float


def run(
    command: list[str], environment: Mapping[str, str], checkpoint: Path, total: int, log: Path
) -> Run:
    began_s = time.time()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
        first: tuple[float, int, float] | None = None
        try:
            while True:
                time.sleep(0.1)
                if process.poll() is not None or time.time() - began_s > _TIMEOUT_S:
                    said = log.read_text(errors="replace")[-2_000:]
                    sys.exit(f"{' '.join(command)} did not finish: {said}")
                done = committed(checkpoint)
                if done is None:
                    continue
                at_s, records = done
                if first is None:
                    first = at_s, records, cpu_s(process.pid)
                if records >= total:
                    if records == first[1]:
                        sys.exit("all came in one batch: set HEADRACE_BATCH_RECORDS_MAX lower")
                    rest = total - first[1]
                    used_s = cpu_s(process.pid) - first[2]
                    return Run(rest / (at_s - first[0]), 1e6 * used_s / rest)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def committed(checkpoint: Path) -> tuple[float, int] | None:
    """When the last batch was done, and how many records it and those before it have had."""
    try:
        last = max((int(one.name) for one in (checkpoint / "commits").glob("[0-9]*")), default=None)
        if last is None:
            return None
        sources = told_of_batch(checkpoint, last)
        at_s = (checkpoint / "commits" / str(last)).stat().st_mtime
    except (OSError, ValueError):
        return None
    by_topic = {topic: places for told in sources for topic, places in told.items()}
    return at_s, sum(
        sum(places.values()) for topic, places in by_topic.items() if topic.startswith("event.")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bids", type=int, default=1_000_000)
    parser.add_argument("--queries", nargs="+", default=[*VIEWS], choices=[*VIEWS])
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    java = find_java()
    jars = fetch_for_tests("Spark-Kafka", ["spark-kafka"], java) / "spark-kafka"
    environment = job_environment()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        both = folder / "jars"
        both.mkdir()
        for jar in (*jars.glob("*.jar"), *Path(environment["HEADRACE_SPARK_JARS"]).glob("*.jar")):
            (both / jar.name).symlink_to(jar)
        with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
            bootstrap = stack.kafka_bootstrap
            for query in asked.queries:
                flow = flow_of(query)
                settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=folder)
                ensure_topics(flow, settings)
                plain_topic = NewTopic(f"plain.{query}", settings.partitions)
                client = admin(settings.kafka)
                client.create_topics([plain_topic])[plain_topic.topic].result(30)
            counts = load(bootstrap, asked.bids)
            for query in asked.queries:
                total = sum(counts[name] for name in VIEWS[query].of)
                ours, plain = list[Run](), list[Run]()
                for number in range(asked.rounds):
                    own = folder / f"{query}-{number}"
                    (own / "plain").mkdir(parents=True)
                    variables = {
                        **environment,
                        "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
                        "HEADRACE_STATE_DIR": str(own),
                        "HEADRACE_FLOW": f"benchmarks.nexmark_flow:{query.upper()}",
                    }
                    ours.append(
                        run(
                            [sys.executable, "-m", "stream_jobs", "views"], variables,
                            own / "checkpoints" / f"view_{query}", total, folder / "view.log",
                        )
                    )  # fmt: skip
                    command = [sys.executable, "-m", "benchmarks.plain_view", query, bootstrap]
                    command += [str(own / "plain"), str(both)]
                    where = own / "plain" / "checkpoint"
                    plain.append(run(command, environment, where, total, folder / "plain.log"))
                rates = [median(one.events_per_s for one in runs) for runs in (ours, plain)]
                print(
                    json.dumps(
                        {
                            "query": query,
                            "events": total,
                            "view_events_per_s": round(rates[0]),
                            "plain_events_per_s": round(rates[1]),
                            "ratio": round(rates[0] / rates[1], 2),
                            "view_cpu_us": [round(one.cpu_us_per_event, 1) for one in ours],
                            "plain_cpu_us": [round(one.cpu_us_per_event, 1) for one in plain],
                        }
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
