"""Where a record's CPU goes, hop by hop: raw topic -> enrich -> event topic -> fold -> state topic.

    python -m benchmarks.profile_hops [--events 800000] [--entities 10000] [--jobs enrich fold]

Each job alone, as a process of its own, on a backlog and a real broker; what it does for the first
batches (the JVM's warming up) is counted apart. CPU is the kernel's, by thread and process; within
them it is divided as samples of their stacks say: Java's Flight Recorder (a JDK's `jcmd` and `jfr`
are needed), and a timer in each Python worker.
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
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from confluent_kafka import Producer

from benchmarks import hops
from benchmarks.peer_contract import publish_areas
from benchmarks.processes import rss_mib, threads_cpu_s, tree
from benchmarks.profiled_job import RECORDS
from benchmarks.sampled_daemon import FOLDER
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.java import find_java
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord, Position, event_value
from shared.flow import load_flow
from shared.ids import fresh_event_id
from shared.model import Fields
from shared.settings import JobSettings

FLOW = "benchmarks.peer_flow:FLOW"
BLOB = "c3RhdGlj" * 14
# threads that no Java stack tells of: what their names begin with
JVM_THREADS = (
    ("JVM: compilers", ("C2 Compiler", "C1 Compiler", "Sweeper")),
    ("JVM: collector", ("GC Thread", "G1 ", "VM Thread", "G1 Conc")),
    ("RocksDB's own threads", ("rocksdb",)),
)
JOBS = ("fold", "enrich")  # what the latter writes comes too late for the former


class Seen(NamedTuple):
    at_s: float
    cpu_s: dict[tuple[int, int, str], float]  # process, thread, name of the thread

    def since(self, before: "Seen") -> dict[tuple[int, int, str], float]:
        return {at: used - before.cpu_s.get(at, 0.0) for at, used in self.cpu_s.items()}


class Profile(NamedTuple):
    events: int
    entities: int
    started: Counter[str]  # CPU seconds until it was warm, by process
    jvm: Counter[str]  # CPU seconds of the window, by hop
    python: Counter[str]
    batches: list[dict[str, Any]]
    unnamed: Counter[str]
    rss_mib: float


def payloads(count: int, entities: int) -> Iterator[tuple[str, Fields]]:
    random.seed(42)
    for i in range(count):
        yield (
            f"dev-{random.randrange(entities):07}",
            {
                "seq": i,
                "ts": 1_700_000_000_000 + i,
                "v": random.randrange(10_000) / 100,
                "unit": "celsius",
                "fw": "1.4.2",
                "blob": BLOB,
            },
        )


def backlog(job: str, count: int, entities: int) -> Iterator[tuple[str, bytes]]:
    """Keys and values, as the gateway and enrich write them."""
    now_ms = time.time_ns() // 1_000_000
    for seq, (device, fields) in enumerate(payloads(count, entities)):
        if job == "enrich":
            yield device, orjson.dumps(fields)
            continue
        data = {"deviceId": device, "area": "area-07", "seq": seq, "ts": now_ms, "v": fields["v"]}
        origin = Position("ingest.telemetry.v1", 0, seq)
        record = EventRecord(
            origin, device, fresh_event_id(), "telemetry", now_ms, now_ms, origin, 0, data
        )
        yield device, event_value(record)


def load(settings: JobSettings, topic: str, records: Iterator[tuple[str, bytes]]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka_bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


class Job:
    """One job at work, with all that looks at it."""

    def __init__(
        self, name: str, settings: JobSettings, folder: Path, conf: dict[str, str]
    ) -> None:
        self.name, self.folder = name, folder
        self._java_bin = find_java().home / "bin"
        (folder / "samples").mkdir(parents=True)
        self._log = (folder / "log").open("wb")
        environment = {
            **os.environ,
            **job_environment(),
            "HEADRACE_FLOW": FLOW,
            "HEADRACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
            "HEADRACE_SPARK_CONF": json.dumps(
                {"spark.python.daemon.module": "benchmarks.sampled_daemon", **conf}
            ),
            FOLDER: str(folder / "samples"),
        }
        command = [sys.executable, "-m", "benchmarks.profiled_job", str(folder / "progress"), name]
        self.process = subprocess.Popen(
            command, env=environment, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def batches(self) -> list[dict[str, Any]]:
        file = self.folder / "progress"
        return [json.loads(line) for line in file.open()] if file.exists() else []

    def seen(self) -> Seen:
        return Seen(time.time(), threads_cpu_s(self.process.pid))

    def jvm(self) -> int:
        return next(
            pid
            for pid in tree(self.process.pid)
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java"
        )

    def record(self) -> None:
        self._jcmd("JFR.start", "name=hops", "settings=profile")

    def recorded(self) -> Iterator[tuple[int, list[str]]]:
        """Thread, frames from within."""
        file = self.folder / "hops.jfr"
        self._jcmd("JFR.stop", "name=hops", f"filename={file}")
        kinds = "jdk.ExecutionSample,jdk.NativeMethodSample"
        command = [self._java_bin / "jfr", "print", "--json", "--stack-depth", "60"]
        told = subprocess.run(
            [*command, "--events", kinds, file], check=True, stdout=subprocess.PIPE
        ).stdout
        for event in orjson.loads(told)["recording"]["events"]:
            values = event["values"]
            trace = values["stackTrace"]
            if trace is None or values["sampledThread"] is None:
                continue
            frames = [
                f"{f['method']['type']['name'].replace('/', '.')}.{f['method']['name']}"
                for f in trace["frames"]
            ]
            if event["type"] == "jdk.ExecutionSample" or hops.jvm_works(frames):
                yield values["sampledThread"]["osThreadId"], frames

    def _jcmd(self, *words: str) -> None:
        command = [self._java_bin / "jcmd", str(self.jvm()), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def profile(job: Job, arguments: argparse.Namespace) -> Profile:
    deadline_s = time.time() + arguments.timeout_s
    begun = _wait_until(job, lambda done: done >= arguments.warm, deadline_s)
    before = job.seen()  # first, for the recording takes a while to begin
    job.record()
    finished = _wait_until(job, lambda done: done >= arguments.events, deadline_s)
    after = job.seen()
    memory = rss_mib(job.process.pid)
    jvm_pid = job.jvm()
    samples: dict[int, Counter[str]] = defaultdict(Counter)
    unnamed: Counter[str] = Counter()
    for thread, frames in job.recorded():
        hop = hops.jvm_hop(frames)
        samples[thread][hop] += 1
        if hop == hops.OTHER:
            unnamed[f"JVM {' < '.join(frames[:4])}"] += 1
    live = {thread for _, thread, _ in after.cpu_s}
    for thread in [ended for ended in samples if ended not in live]:
        samples[0] += samples[thread]  # as the kernel has it of threads that have ended
    jvm: Counter[str] = Counter()
    for (pid, thread, name), used_s in after.since(before).items():
        if pid != jvm_pid:
            continue
        own = next((hop for hop, names in JVM_THREADS if name.startswith(names)), None)
        jvm += Counter({own: used_s}) if own else hops.spread(used_s, samples[thread])
    python = _python(job, before, after, jvm_pid, unnamed)
    done = sum(batch[RECORDS] for batch in finished[len(begun) :])
    started: Counter[str] = Counter()
    for (pid, _, name), used_s in before.cpu_s.items():
        own = next((hop for hop, names in JVM_THREADS if name.startswith(names)), "JVM: the rest")
        started[own if pid == jvm_pid else "Python"] += used_s
    return Profile(
        done, arguments.entities, started, jvm, python, finished[len(begun) :], unnamed, memory
    )


def _python(
    job: Job, before: Seen, after: Seen, jvm_pid: int, unnamed: Counter[str]
) -> Counter[str]:
    samples: dict[int, Counter[str]] = defaultdict(Counter)
    folder = job.folder / "samples"
    time.sleep(1.1)  # a worker writes down its seconds when they are over
    for pid, count, frames in hops.python_samples(folder, before.at_s, after.at_s):
        hop = hops.hop_of(frames, hops.PYTHON)
        samples[pid][hop] += count
        if hop == hops.OTHER:
            unnamed[f"Python {' < '.join(frames[:4])}"] += count
    found: Counter[str] = Counter()
    for (pid, _, _), used_s in after.since(before).items():
        if pid == job.process.pid:
            found["driver"] += used_s
        elif pid != jvm_pid:
            found += hops.spread(used_s, samples[pid])
    return found


def _wait_until(job: Job, fits: Any, deadline_s: float) -> list[dict[str, Any]]:
    while True:
        batches = job.batches()
        if fits(sum(batch[RECORDS] for batch in batches)):
            return batches
        if job.process.poll() is not None or time.time() > deadline_s:
            sys.exit(f"{job.name} did not finish, see {job.folder / 'log'}")
        time.sleep(0.05)


def table(name: str, found: Profile) -> str:
    def us(cpu_s: float) -> str:
        return f"{cpu_s * 1e6 / found.events:.1f}" if cpu_s else ""

    rows = sorted(found.jvm | found.python, key=lambda hop: -(found.jvm[hop] + found.python[hop]))
    lines = [
        f"### {name}: CPU microseconds an event, {found.events:,} events of {found.entities:,} "
        "entities, warm",
        "",
        "| hop | JVM | Python | both |",
        "|---|---|---|---|",
        *(
            f"| {hop} | {us(found.jvm[hop])} | {us(found.python[hop])} "
            f"| {us(found.jvm[hop] + found.python[hop])} |"
            for hop in rows
            if (found.jvm[hop] + found.python[hop]) * 1e6 / found.events >= 0.05
        ),
        f"| all | {us(found.jvm.total())} | {us(found.python.total())} "
        f"| {us(found.jvm.total() + found.python.total())} |",
        "",
        f"Peak memory {found.rss_mib:,.0f} MiB. CPU until it was warm: "
        + ", ".join(f"{part} {used:.1f} s" for part, used in found.started.most_common()),
        "",
        *_durations(found.batches),
    ]
    return "\n".join(lines)


def _durations(batches: list[dict[str, Any]]) -> list[str]:
    """Spark's own word, in milliseconds of wall time a batch."""
    spent: Counter[str] = Counter()
    for batch in batches:
        spent.update(batch["durationMs"])
        for operator in batch["stateOperators"]:
            spent["state: updates (sum over partitions)"] += operator["allUpdatesTimeMs"]
            spent["state: commit (sum over partitions)"] += operator["commitTimeMs"]
    told = ", ".join(f"{what} {ms / len(batches):.0f}" for what, ms in spent.most_common())
    return [f"{len(batches)} batches, milliseconds each: {told}", ""]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=800_000)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=400_000, help="events before it is looked at")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--spark-conf", default="{}", help="further Spark configuration, as JSON")
    parser.add_argument("--timeout-s", type=float, default=300)
    parser.add_argument("--unnamed", type=int, default=0, help="so many stacks of no hop")
    arguments = parser.parse_args()
    os.environ["HEADRACE_FLOW"] = FLOW
    flow = load_flow(FLOW)
    with tempfile.TemporaryDirectory(prefix="headrace-hops-") as name:
        folder = Path(name)
        with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
            settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder / "jobs")
            ensure_topics(flow, settings)
            publish_areas(settings, _areas(arguments.entities))
            topics = {"enrich": flow.endpoints[0].topic, "fold": flow.event_types[0].topic}
            for job_name in (name for name in JOBS if name in arguments.jobs):
                records = backlog(job_name, arguments.events, arguments.entities)
                load(settings, topics[job_name], records)
                job = Job(job_name, settings, folder / job_name, json.loads(arguments.spark_conf))
                try:
                    found = profile(job, arguments)
                finally:
                    job.end()
                print(table(job_name, found), flush=True)
                for stack_, count in found.unnamed.most_common(arguments.unnamed):
                    print(count, stack_)


def _areas(entities: int) -> list[tuple[str, str]]:
    return [(f"dev-{number:07}", f"area-{number % 20:02}") for number in range(entities)]


if __name__ == "__main__":
    main()
