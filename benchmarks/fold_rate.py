"""How fast the fold job folds, against the applier alone: event topic -> state topic.

    python -m benchmarks.fold_rate --events 1000000 --entities 10000 [--spill]

Real broker, real job (`python -m stream_jobs fold`) in a process of its own. The limit in the same
run is the same applier over the same events in one Python process, without Spark and Kafka.
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
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.processes import cpu_s, resident_mib
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.code_fingerprint import fold_fingerprint
from shared.ids import fresh_event_id
from shared.settings import JobSettings

EVENTS = FLOW.event_types[0].topic
DEVICE = FLOW.entities[0]
SPILL = {
    "spark.shuffle.spill.numElementsForceSpillThreshold": "1000",
    # so that the shuffle has rows enough to spill
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}
_LOOK_S = 3.0
BLOB = "c3RhdGlj" * 14


def events(count: int, entities: int, *, each_once: bool = False) -> Iterator[EventRecord]:
    random.seed(42)
    now_ms = time.time_ns() // 1_000_000
    for i in range(count):
        number = i if each_once else random.randrange(entities)
        data = {
            "value": random.randrange(7_000) / 100,
            "unit": "celsius",
            "area": f"area-{number % 20:02}",
            "model": "thermo-c",
            "attributes": {},
            "rest": {"seq": i, "fw": "1.4.2", "blob": BLOB},
        }
        origin = Position("ingest.telemetry.v1", number % 4, i)
        yield EventRecord(
            Position(EVENTS, 0, i), f"dev-{number:07}", fresh_event_id(), "reading",
            now_ms + i // 1000, now_ms + i // 1000, origin, 0, data,
        )  # fmt: skip


def load(bootstrap: str, count: int, entities: int, *, each_once: bool = False) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            # without it retries reorder, and what comes behind its mark is taken for a repeat
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    for record in events(count, entities, each_once=each_once):
        while True:
            try:
                producer.produce(EVENTS, event_value(record), record.entity_id)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0


def applier_alone_rate(count: int, entities: int) -> float:
    """Events a second of one process that parses, folds and encodes in batches, all in memory."""
    values = [event_value(record) for record in events(count, entities)]
    applier, fingerprint = (
        Applier(DEVICE, JobSettings().id_ring_size),
        fold_fingerprint(DEVICE.fold),
    )
    states: dict[str, bytes] = {}
    started_s = time.perf_counter()
    for start in range(0, count, 100_000):
        by_entity: dict[str, list[EventRecord]] = defaultdict(list)
        for offset, value in enumerate(values[start : start + 100_000], start):
            record = read_event(Position(EVENTS, 0, offset), value)
            by_entity[record.entity_id].append(record)
        for entity_id, records in by_entity.items():
            before = states.get(entity_id)
            applied = applier.apply(entity_id, snapshot.decode(before) if before else None, records)
            assert applied.snapshot is not None
            states[entity_id] = snapshot.encode(applied.snapshot, fingerprint)
    return count / (time.perf_counter() - started_s)


class StateTopic:
    """What the job has written: how many events it has folded, and when."""

    def __init__(self, bootstrap: str, topic: str = DEVICE.topic) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
        known = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in known])
        self.counts: dict[bytes, int] = {}
        self.records = self.bytes = self.first_ms = self.last_ms = 0
        # (time, events folded until then): the second half alone is past the JVM's warming up
        self._progress: list[tuple[int, int]] = []

    def take(self) -> int:
        for message in self._consumer.consume(20_000, 0.2):
            key, value, time_ms = message.key(), message.value(), message.timestamp()[1]
            if message.error() or key is None or value is None:
                continue
            self.counts[key] = json.loads(value)["count"]
            self.records += 1
            self.bytes += len(value)
            self.first_ms = min(self.first_ms or time_ms, time_ms)
            self.last_ms = max(self.last_ms, time_ms)
        folded = sum(self.counts.values())
        self._progress.append((self.last_ms, folded))
        return folded

    def close(self) -> None:
        self._consumer.close()

    def second_half_rate(self, total: int) -> float:
        half_ms, half = next(p for p in self._progress if p[1] * 2 >= total)
        return (total - half) * 1000 / max(self.last_ms - half_ms, 1)


def run_job(stack: Stack, folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    spark_conf = {**(SPILL if arguments.spill else {}), **json.loads(arguments.spark_conf)}
    environment = {
        **os.environ,
        **job_environment(),
        "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
        "HEADRACE_STATE_DIR": str(folder),
        "HEADRACE_SPARK_CONF": json.dumps(spark_conf),
    }
    topic = StateTopic(stack.kafka_bootstrap)
    with (folder / "fold.log").open("wb") as log:
        started_s = time.time()
        job = subprocess.Popen(
            [sys.executable, "-m", "stream_jobs", "fold"],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            resident, looked_s = 0.0, started_s
            while topic.take() < arguments.events:
                if time.time() - looked_s > _LOOK_S:
                    resident, looked_s = max(resident, resident_mib(job.pid)), time.time()
                if job.poll() is not None or time.time() - started_s > arguments.timeout_s:
                    sys.exit(f"the job did not finish, see {log.name}")
            used_s, resident = cpu_s(job.pid), max(resident, resident_mib(job.pid))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    return {
        "seconds_from_launch": round(topic.last_ms / 1000 - started_s, 1),
        "events_per_s": round(arguments.events / (topic.last_ms / 1000 - started_s)),
        "second_half_events_per_s": round(topic.second_half_rate(arguments.events)),
        "cpu_us_per_event": round(used_s * 1e6 / arguments.events, 1),
        "peak_resident_mib": resident,
        "snapshots": topic.records,
        "bytes_per_snapshot": topic.bytes // topic.records,
        "ok": sum(topic.counts.values()) == arguments.events,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--spill", action="store_true", help="force every sort to spill")
    parser.add_argument("--spark-conf", default="{}", help="further Spark configuration, as JSON")
    parser.add_argument("--timeout-s", type=float, default=900)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
            settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder)
            ensure_topics(FLOW, settings)
            load(stack.kafka_bootstrap, arguments.events, arguments.entities)
            result = run_job(stack, folder, arguments)
        alone = applier_alone_rate(min(arguments.events, 200_000), arguments.entities)
    asked = {k: getattr(arguments, k) for k in ("events", "entities", "spill")}
    ratio = float(str(result["second_half_events_per_s"])) / alone
    print(
        json.dumps(
            {
                **asked,
                **result,
                "applier_alone_events_per_s": round(alone),
                "ratio": round(ratio, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
