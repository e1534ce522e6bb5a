"""The forward job alone, killed with -9 at random, and Kafka away now and then. The servers of
three webhooks are away at first, and wrong now and then afterwards.

Each event goes to all three: in the order of its entity; several in a request; each at most once.

python -m tests.faults.hooks_run --events 34000 --kills 20
"""

import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events.envelope import event_headers, event_value
from shared.flow import load_flow
from shared.settings import JobSettings
from tests.builders import event_record
from tests.faults.by_hand import by_hand, say
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.stream_jobs.forward.forward_oracle import Arrival, faults
from tests.stream_jobs.forward.hook_maker import hook_desk
from tests.stream_jobs.forward.target_server import QUICK, WRONG, Received, Reply, TargetServer

ENTITIES = 200
HOOKS: dict[str, dict[str, Any]] = {
    "ordered": {},
    "batches": {"batch": 50},
    "once": {"delivery": "at most once"},
}
_AWAY = Reply(None)


class Server(TargetServer):
    """Of one hook: away, then wrong now and then, and well in the end."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._answer)
        self._chance = random.Random(seed)
        self.state = "away"

    def _answer(self, _: Received) -> Reply:
        if self.state == "away":
            return _AWAY
        is_wrong = self.state == "wrong" and self._chance.random() < 0.03
        return self._chance.choice(WRONG) if is_wrong else Reply()

    def arrivals(self) -> list[Arrival]:
        found = []
        for number, (received, reply) in enumerate(self.received()):
            told = json.loads(received.body)
            is_done = reply.status is not None and 200 <= reply.status < 300
            for one in told if isinstance(told, list) else [told]:
                found.append(Arrival(one["subject"], one["id"], is_done, number))
        return found

    def done(self) -> int:
        return len({one.event_id for one in self.arrivals() if one.is_done})

    def seen(self) -> int:
        return len(self.received())


class Hooks:
    def __init__(self, folder: Path, stack: Stack, servers: dict[str, Server], seed: int) -> None:
        self.chance = random.Random(seed)
        self.servers = servers
        self._folder = folder
        kafka = stack.kafka_bootstrap
        self._settings = JobSettings(kafka_bootstrap=kafka, state_dir=folder / "job")
        self._settings.make_folders()
        ensure_topics(load_flow(), self._settings)
        self._bootstrap = kafka
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        self.sent: defaultdict[str, list[str]] = defaultdict(list)
        self._lines: list[bytes] = []

    def add(self) -> None:
        desk = hook_desk(self._settings)
        for name, fields in HOOKS.items():
            url = f"{self.servers[name].url}/in"
            desk.add(name, {"url": url, **QUICK, **fields}, by="rig")

    def job(self) -> JobProcess:
        variables = {**job_environment(), "HEADRACE_HOOKS_HOSTS_ALLOWED": "127.0.0.1"}
        return JobProcess("forward", self._settings, self._folder / "forward.log", variables)

    def send(self, count: int) -> None:
        for _ in range(count):
            entity = f"device-{self.chance.randrange(ENTITIES):04}"
            number = len(self.sent[entity])
            name = f"{entity}-{number}"
            self.sent[entity].append(name)
            one = event_record(number, entity_id=entity, id=name, value=float(number))
            value, headers = event_value(one), event_headers(one)
            # enrich that was killed writes its last events again
            for _ in range(2 if self.chance.random() < 0.01 else 1):
                self._producer.poll(0)
                self._producer.produce("event.reading.v1", value, entity, headers=headers)
        assert self._producer.flush(60) == 0

    @property
    def events(self) -> int:
        return sum(map(len, self.sent.values()))

    def seen(self) -> int:
        return sum(server.seen() for server in self.servers.values())

    def are_all_done(self) -> bool:
        return all(self.servers[name].done() == self.events for name in ("ordered", "batches"))

    def waits(self) -> int:
        gates = {one.key: one.value for one in read_topic(self._bootstrap, "gate.forward.v1")}
        return sum(sum(json.loads(gate)["waiting"].values()) for gate in gates.values() if gate)

    def violations(self) -> Iterator[str]:
        for name in ("ordered", "batches"):
            arrived = self.servers[name].arrivals()
            for fault in faults(self.sent, arrived):
                yield f"{name}: {fault}"
        yield from once_faults(self.sent, self.servers["once"].arrivals())
        if letters := read_topic(self._bootstrap, "dlq.forward.v1"):
            yield f"{len(letters)} dead letters, and none was to be given up"


def once_faults(sent: dict[str, Sequence[str]], arrived: Sequence[Arrival]) -> Iterator[str]:
    for event_id, count in Counter(one.event_id for one in arrived).items():
        if count > 1:
            yield f"once: {event_id} came {count} times"
    for entity, ids in sent.items():
        came = [one.event_id for one in arrived if one.entity == entity]
        places = [ids.index(event_id) for event_id in came if event_id in ids]
        if len(places) < len(came):
            yield f"once: {entity} got what was never sent"
        if places != sorted(places):
            yield f"once: {entity} is out of order"


def _has_grown(count: Callable[[], int], before: int) -> bool:
    return count() > before


def _be_killed(hooks: Hooks, stack: Stack, events: int, kills: int, up_to_s: float) -> None:
    job = hooks.job()
    for number in range(1, kills + 1):
        seen = hooks.seen()
        job.start()
        if number == 1:
            hooks.add()
        hooks.send(events // (kills + 1))
        eventually(partial(_has_grown, hooks.seen, seen), within_s=300)
        time.sleep(hooks.chance.uniform(0, up_to_s))
        if number % 5 == 4:
            stack.hold("kafka")
            time.sleep(3)
            stack.release("kafka")
            time.sleep(hooks.chance.uniform(0, up_to_s))
        if number == max(1, kills // 4):
            for server in hooks.servers.values():
                server.state = "wrong"
        job.kill()
        say(f"kill {number}: {hooks.events} events, {hooks.seen()} requests, {hooks.waits()} wait")
    with job:
        hooks.send(events - hooks.events)
        time.sleep(up_to_s)
        for server in hooks.servers.values():
            server.state = "well"
        eventually(hooks.are_all_done, within_s=1_800, every_s=2)
        eventually(lambda: hooks.waits() == 0, within_s=300)


def run(folder: Path, events: int, kills: int, seed: int, up_to_s: float) -> int:
    with ExitStack() as opened:
        stack = opened.enter_context(
            Stack(folder / "servers", random_ports=True, services=("kafka",))
        )
        servers = {name: Server(seed + number) for number, name in enumerate(HOOKS)}
        for server in servers.values():
            opened.enter_context(server)
        hooks = Hooks(folder, stack, servers, seed)
        began_s = time.monotonic()
        _be_killed(hooks, stack, events, kills, up_to_s)
        took_s = time.monotonic() - began_s
        found = list(hooks.violations())
        arrived = {name: servers[name].arrivals() for name in HOOKS}
    once = len({one.event_id for one in arrived["once"]})
    repeats = {name: len(its) - len({one.event_id for one in its}) for name, its in arrived.items()}
    print(
        f"seed {seed}: {hooks.events} events for 3 webhooks, {kills} kills, {took_s:.0f} s, "
        f"{len(found)} violations; sent again: {repeats}; {hooks.events - once} left out of those "
        "that are sent at most once"
    )
    print(*found[:20], sep="\n")
    return 1 if found else 0


def main() -> int:
    return by_hand(
        __doc__,
        run,
        {
            "events": (34_000, None),
            "kills": (20, None),
            "up_to_s": (8.0, "so long it goes on after its first request"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
