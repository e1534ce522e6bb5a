"""The retry job alone, killed with -9 at random while payloads of unknown devices wait in its lane;
meanwhile most of the devices are registered, and what is left is given up in the end.

python -m tests.faults.retry_run --letters 5000 --kills 20
"""

import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from clients.postgres import master_data, schema, store
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events import envelope
from shared.flow import FLOW
from shared.settings import JobSettings
from tests.faults.by_hand import by_hand, say
from tests.faults.lane_state import keys_of
from tests.job_process import JobProcess
from tests.kafka_log import Record, eventually, last_values, read_topic

INGEST, LANE, GATE = "ingest.telemetry.v1", "retry.enrich.v1", "gate.enrich.v1"
EVENTS, PARKED = "event.reading.v1", "dlq.enrich.v1"
_LETTERS_OF_A_DEVICE = 10
_NEVER = 0.1  # so many of the devices are not registered
_REGISTER = """INSERT INTO headrace.device (id, area, model)
               SELECT id, 'area-01', 'thermo-c' FROM unnest(%s::text[]) AS late (id)"""


class Waiting:
    def __init__(self, folder: Path, stack: Stack, letters: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bootstrap, self._postgres_url = stack.kafka_bootstrap, stack.postgres_url
        self._folder = folder
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        self.devices = [f"late-{n:05}" for n in range(letters // _LETTERS_OF_A_DEVICE)]
        self.chance.shuffle(self.devices)
        self.registered: set[str] = set()
        self.letters = len(self.devices) * _LETTERS_OF_A_DEVICE

    def job(self, name: str, **variables: str) -> JobProcess:
        settings = JobSettings(kafka_bootstrap=self.bootstrap, state_dir=self._folder / name)
        log = self._folder / f"{name}.log"
        environment = {**job_environment(), "HEADRACE_POSTGRES_URL": self._postgres_url}
        return JobProcess(name, settings, log, {**environment, **variables})

    def arrive(self) -> None:
        for number in range(_LETTERS_OF_A_DEVICE):
            for device in self.devices:
                value = json.dumps({"value": number}).encode()
                headers = [
                    (envelope.ID, f"{device}/{number}".encode()),
                    (envelope.PAYLOAD_SHA256, sha256(value).hexdigest().encode()),
                ]
                self._producer.poll(0)
                self._producer.produce(INGEST, value, device, headers=headers)
        self._producer.flush(60)

    def register(self, count: int) -> None:
        there = int(len(self.devices) * (1 - _NEVER))
        some = self.devices[len(self.registered) : there][:count]
        with psycopg.connect(self._postgres_url) as connection:
            connection.execute(_REGISTER, [some])
        self.registered.update(some)

    def count(self, topic: str) -> int:
        return len({record.headers[envelope.ID] for record in read_topic(self.bootstrap, topic)})

    def open_gates(self) -> int:
        latest = {record.key: record.value for record in read_topic(self.bootstrap, GATE)}
        return sum(value is not None for value in latest.values())

    def said(self) -> dict[str, Any]:
        return last_values(self.bootstrap, "job.status.v1").get("retry", {})

    def violations(self) -> Iterator[str]:
        events = _ids(read_topic(self.bootstrap, EVENTS))
        parked = _ids(read_topic(self.bootstrap, PARKED))
        for device in self.devices:
            for number in range(_LETTERS_OF_A_DEVICE):
                known, event_id = device in self.registered, f"{device}/{number}"
                if known != (event_id in events) or known == (event_id in parked):
                    yield f"lost, or not where it should be: {event_id}, registered: {known}"
        firsts: defaultdict[str, list[int]] = defaultdict(list)
        for event_id, (first, *_) in events.items():
            firsts[event_id.partition("/")[0]].append(first.offset)
        for device, offsets in firsts.items():
            if offsets != sorted(offsets):
                yield f"not in the order of its payloads: {device}"
        for event_id, (first, *copies) in events.items():
            if any(json.loads(copy.value) != json.loads(first.value) for copy in copies):
                yield f"two that differ: {event_id}"
        for event_id, letters in parked.items():
            tries = {letter.headers[envelope.TRIES] for letter in letters}
            if tries != {b"1"}:
                yield f"its row never came, so it was tried once, not {tries}: {event_id}"


def _ids(records: list[Record]) -> dict[str, list[Record]]:
    """In the order of each device's payloads."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.headers[envelope.ID].decode()].append(record)
    return dict(sorted(found.items()))


def _wait_and_be_killed(waiting: Waiting, kills: int, up_to_s: float) -> None:
    waiting.arrive()
    with waiting.job("enrich"):
        eventually(lambda: waiting.count(LANE) == waiting.letters, within_s=600)
        time.sleep(5)  # it says how far it is
    say(f"{waiting.letters} payloads of {len(waiting.devices)} devices are in the lane")
    job = waiting.job("retry")
    for number in range(1, kills + 1):
        job.start()
        up_s = waiting.chance.uniform(2, up_to_s)
        time.sleep(up_s * waiting.chance.random())
        waiting.register(len(waiting.devices) // kills)
        time.sleep(up_s * waiting.chance.random())
        job.kill()
        say(
            f"kill {number}: {len(waiting.registered)} registered, "
            f"{waiting.count(EVENTS)} events, {waiting.open_gates()} wait"
        )
    with waiting.job("retry"):
        waiting.register(len(waiting.devices))
        done = len(waiting.registered) * _LETTERS_OF_A_DEVICE
        eventually(lambda: waiting.count(EVENTS) == done, within_s=600)
    with waiting.job("retry", HEADRACE_PARKED_AFTER_S="1"):
        eventually(lambda: waiting.open_gates() == 0, within_s=600)
        eventually(lambda: waiting.said().get("lag_records") == 0)


def run(folder: Path, letters: int, kills: int, seed: int, up_to_s: float) -> int:
    servers = ("kafka", "postgres")
    with Stack(folder / "servers", random_ports=True, services=servers) as stack:
        waiting = Waiting(folder, stack, letters, seed)
        ensure_topics(FLOW, JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder))
        schema.migrate(stack.postgres_url)
        with store.connect(stack.postgres_url, "migrate") as connection:
            master_data.seed(connection)
        with waiting.job("relay"):
            _wait_and_be_killed(waiting, kills, up_to_s)
        found = list(waiting.violations())
        kept = keys_of(folder / "retry" / "checkpoints" / "retry", job_environment())
        found += [f"{count} keys are left in {name}" for name, count in kept.items() if count]
        events, parked = read_topic(stack.kafka_bootstrap, EVENTS), waiting.count(PARKED)
    copies = Counter(record.headers[envelope.ID] for record in events)
    print(
        f"seed {seed}: {waiting.letters} payloads, {kills} kills: {len(copies)} events "
        f"({len(events) - len(copies)} doubled in the log), {parked} parked, "
        f"keys left in retry's state: {kept}, 0 gates open, {len(found)} violations"
    )
    print(*found[:20], sep="\n")
    return 1 if found else 0


def main() -> int:
    return by_hand(
        __doc__,
        run,
        {
            "letters": (5_000, None),
            "kills": (20, None),
            "up_to_s": (30.0, "so long the job may live"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
