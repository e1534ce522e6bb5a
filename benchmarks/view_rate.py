"""How fast views work off a backlog, beside the same SQL in plain Structured Streaming.

    python -m benchmarks.view_rate --bids 1000000 [--queries q0 q7] [--rounds 2]
        [--beside flink streams --peers FOLDER]

Real broker. Of each query a view (`python -m stream_jobs views`) and a plain query
(`plain_view.py`) read the same topics in turn, each in a process of its own, with the same settings
of Spark and at most as many records in a batch. The rate is that from the end of the first batch to
the end of the one that has the last record, as Spark's own checkpoint has them.

`--beside` runs the same queries in Flink's SQL and in Kafka Streams, too (`peer_views`), whose jars
are kept in FOLDER. Their rate is that between the first offsets that they commit and the last ones
before those of the end: these may have waited for their interval.
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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import peer_views
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


def events(bids: int, wanted: Collection[str]) -> Iterator[Event]:
    """One person and three auctions to 46 bids, as NEXMark has them; no bids where none is read."""
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
        for _ in range(46 if "bid" in wanted else 0):
            bidder = f"person-{max(0, number - dice.randrange(1_000)):07}"
            auction = f"auction-{max(0, 3 * number - dice.randrange(100)):08}"
            data = {"auction": auction, "price": dice.randrange(100, 10_000_000)}
            yield Event(
                "bid", bidder, {**data, "channel": "Google", "url": "https://example.org/x"}
            )


def load(bootstrap: str, bids: int, wanted: Collection[str]) -> dict[str, int]:
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
    for number, event in enumerate(events(bids, wanted)):
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


class Done(NamedTuple):
    at_s: float
    records: int
    used_s: float


def run(
    command: list[str],
    environment: Mapping[str, str],
    committed: Callable[[], tuple[float, int] | None],
    total: int,
    log: Path,
    *,
    by_interval: bool = False,
) -> Run:
    """`by_interval`: what is done is committed a while later, and so is the last of it."""
    began_s = time.time()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
        seen: list[Done] = []
        try:
            while not seen or seen[-1].records < total:
                time.sleep(0.1)
                if process.poll() is not None or time.time() - began_s > _TIMEOUT_S:
                    said = log.read_text(errors="replace")[-2_000:]
                    sys.exit(f"{' '.join(command)} did not finish: {said}")
                done = committed()
                if done and done[1] and (not seen or done[1] > seen[-1].records):
                    seen.append(Done(*done, cpu_s(process.pid)))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    first, last = seen[0], seen[-2 if by_interval and len(seen) > 2 else -1]
    if first is last:
        sys.exit("all came in one batch: set HEADRACE_BATCH_RECORDS_MAX lower")
    records = last.records - first.records
    return Run(records / (last.at_s - first.at_s), 1e6 * (last.used_s - first.used_s) / records)


def committed_by(client: AdminClient, group: str) -> tuple[float, int] | None:
    """The same of a group of consumers, as Kafka has it."""
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    places = asked[group].result(30).topic_partitions or []
    return time.time(), sum(
        max(0, one.offset) for one in places if one.topic.startswith("event.") and not one.error
    )


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
    parser.add_argument("--beside", nargs="+", default=[], choices=peer_views.PEERS)
    parser.add_argument("--peers", type=Path, default=None)
    asked = parser.parse_args()
    if asked.beside and asked.peers is None:
        parser.error("--beside needs --peers FOLDER, where their jars are kept")
    java = find_java()
    jars = fetch_for_tests("Spark-Kafka", ["spark-kafka"], java) / "spark-kafka"
    environment = job_environment()
    peer_jars = {name: peer_views.fetch(name, asked.peers) for name in asked.beside}
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
                client = admin(settings.kafka)
                names = [f"{name}.{query}" for name in ("plain", *asked.beside)]
                new = [NewTopic(name, settings.partitions) for name in names]
                for made in client.create_topics(new).values():
                    made.result(30)
            wanted = {name for query in asked.queries for name in VIEWS[query].of}
            counts = load(bootstrap, asked.bids, wanted)
            for query in asked.queries:
                total = sum(counts[name] for name in VIEWS[query].of)
                runs: dict[str, list[Run]] = {name: [] for name in ("view", "plain", *asked.beside)}
                for number in range(asked.rounds):
                    own = folder / f"{query}-{number}"
                    (own / "plain").mkdir(parents=True)
                    variables = {
                        **environment,
                        "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
                        "HEADRACE_STATE_DIR": str(own),
                        "HEADRACE_FLOW": f"benchmarks.nexmark_flow:{query.upper()}",
                    }
                    done = partial(committed, own / "checkpoints" / f"view_{query}")
                    command = [sys.executable, "-m", "stream_jobs", "views"]
                    runs["view"].append(run(command, variables, done, total, folder / "view.log"))
                    done = partial(committed, own / "plain" / "checkpoint")
                    command = [sys.executable, "-m", "benchmarks.plain_view", query, bootstrap]
                    command += [str(own / "plain"), str(both)]
                    log = folder / "plain.log"
                    runs["plain"].append(run(command, environment, done, total, log))
                    for name, its_jars in peer_jars.items():
                        group, where = f"{name}-{query}-{number}", own / name
                        where.mkdir()
                        command = peer_views.command(name, its_jars, query, bootstrap, where, group)
                        done = partial(committed_by, client, group)
                        log = folder / f"{name}.log"
                        runs[name].append(run(command, {}, done, total, log, by_interval=True))
                print(json.dumps({"query": query, "events": total, **told(runs)}), flush=True)


def told(runs: Mapping[str, list[Run]]) -> dict[str, object]:
    """Of each the median rate, and ours in parts of it."""
    rates = {name: median(one.events_per_s for one in its) for name, its in runs.items()}
    return {
        name: {
            "events_per_s": round(rate),
            "view_is": round(rates["view"] / rate, 2),
            "cpu_us": [round(one.cpu_us_per_event, 1) for one in runs[name]],
        }
        for name, rate in rates.items()
    }


if __name__ == "__main__":
    main()
