"""How long a fold of many entities pauses when its process is killed: until the next one's first
new state, with a standby and from nothing.

    python -m benchmarks.take_over --entities 1000000 --rounds 3

Real broker, real job (`python -m stream_jobs fold`). An event a tenth of a second comes in all the
time; the pause is from the kill to the first state that has an event from after it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.fold_rate import DEVICE, EVENTS, events, load
from benchmarks.processes import resident_mib
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events.envelope import event_value
from shared.flow import FLOW
from shared.settings import JobSettings

_EVERY_S = 0.1
_BEHIND = 1_000_000_000
_KNOWN = 100  # entities that get the events of the trickle


class Job:
    def __init__(self, stack: Stack, folder: Path, log: Path) -> None:
        self._log = log
        environment = {
            **os.environ,
            **job_environment(),
            "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(folder),
            "HEADRACE_STANDBY": "true",
        }
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stream_jobs", "fold"],
                env=environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def has_said(self, words: str) -> bool:
        if self.process.poll() is not None:
            sys.exit(f"the job has ended: {self._log.read_text()[-2000:]}")
        return words in self._log.read_text()

    def kill(self) -> None:
        """With -9, its JVM and Python workers too."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class States:
    """The state topic, from its end on: which event was the last one in each state."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
        topic = DEVICE.topic
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ends = [
            TopicPartition(
                topic, p, self._consumer.get_watermark_offsets(TopicPartition(topic, p))[1]
            )
            for p in partitions
        ]
        self._consumer.assign(ends)

    def pause_s(self, within_s: float) -> float:
        """Until a state has an event that came after now."""
        since_s, since_ms = time.time(), time.time_ns() // 1_000_000
        until_s = since_s + within_s
        while time.time() < until_s:
            for message in self._consumer.consume(1_000, 0.05):
                value = message.value()
                if message.error() or value is None:
                    continue
                if json.loads(value)["last_seen_ms"] >= since_ms:
                    return time.time() - since_s
        sys.exit(f"no new state within {within_s:g} s")


@contextmanager
def _trickle(bootstrap: str) -> Iterator[None]:
    ends = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        for record in events(1_000_000, _KNOWN):
            if ends.wait(_EVERY_S):
                break
            now_ms = time.time_ns() // 1_000_000
            # behind all that was there before: what comes from before its mark is a repeat
            origin = record.origin._replace(offset=record.origin.offset + _BEHIND)
            record = record._replace(time_ms=now_ms, arrived_ms=now_ms, origin=origin)
            producer.produce(EVENTS, event_value(record), record.entity_id)
            producer.poll(0)
        producer.flush(5)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _until(is_so: Callable[[], bool], within_s: float, every_s: float = 0.2) -> None:
    until_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until_s:
            sys.exit(f"not within {within_s:g} s")
        time.sleep(every_s)


def _round(stack: Stack, folder: Path, number: int, within_s: float) -> dict[str, float]:
    """A kill with a standby, then one without."""
    first = Job(stack, folder, folder / f"first-{number}.log")
    _until(lambda: first.has_said("fold is running"), within_s)
    its = States(stack.kafka_bootstrap)
    its.pause_s(within_s)  # all that was there before is folded
    standby = Job(stack, folder, folder / f"standby-{number}.log")
    try:
        _until(lambda: standby.has_said("stands by"), within_s)
        memory = {"works_mib": resident_mib(first.process.pid)}
        memory["stands_by_mib"] = resident_mib(standby.process.pid)
        first.kill()
        with_standby_s = its.pause_s(within_s)
    finally:
        standby.kill()
    cold = Job(stack, folder, folder / f"cold-{number}.log")
    try:
        cold_s = its.pause_s(within_s)
    finally:
        cold.kill()
    return {"standby_s": round(with_standby_s, 2), "cold_s": round(cold_s, 2), **memory}


def main() -> None:
    parser = argparse.ArgumentParser(description="how long a fold pauses when it is killed")
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout-s", type=float, default=900)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
            settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder)
            ensure_topics(FLOW, settings)
            load(stack.kafka_bootstrap, arguments.entities, arguments.entities, each_once=True)
            with _trickle(stack.kafka_bootstrap):
                for number in range(arguments.rounds):
                    print(
                        json.dumps(_round(stack, folder, number, arguments.timeout_s)), flush=True
                    )


if __name__ == "__main__":
    main()
