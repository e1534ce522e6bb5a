"""The persist job alone, killed with -9 at random, and PostgreSQL away now and then, while rows
wait for what a user's own trigger and foreign key ask for.

Of each three devices one is known to the user's table from the beginning, one comes to be known,
and one never is: what waits for that is given up in the end. One event in fifty can never be a row.

python -m tests.faults.rows_run --events 20000 --kills 20
"""

import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from clients.postgres import schema, store
from desk.waiting.lines import PersistLane
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.settings import JobSettings
from tests.faults.by_hand import by_hand, say
from tests.faults.rows_flow import FLOW
from tests.job_process import JobProcess
from tests.kafka_log import eventually

EVENTS, STATES = "event.reading.v1", "state.device.v1"
_WRONG = 3_000_000_000.0  # no int4
# what a user adds: an event's device has to be known, and its value has to fit into a column of
# theirs; a state refers to the device
_OF_THE_USER = """
    CREATE TABLE public.site (id text PRIMARY KEY, since timestamptz DEFAULT clock_timestamp());
    CREATE TABLE public.last_value (device text, value int);
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM public.site WHERE id = NEW.entity_id) THEN
            RAISE EXCEPTION 'site % is not known', NEW.entity_id;
        END IF;
        INSERT INTO public.last_value VALUES (NEW.entity_id, (NEW.data->>'value')::numeric::int);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note BEFORE INSERT ON headrace.event
        FOR EACH ROW EXECUTE FUNCTION public.note();
    ALTER TABLE headrace.entity_state ADD FOREIGN KEY (id) REFERENCES public.site;
"""


class Sent(NamedTuple):
    device: str
    number: int  # of the device's events
    place: int  # in the log of payloads
    is_wrong: bool

    @property
    def id(self) -> str:
        return f"{self.device}/{self.number}"


class Rows:
    def __init__(self, folder: Path, stack: Stack, seed: int) -> None:
        self.chance = random.Random(seed)
        self._stack, self._folder = stack, folder
        self._producer = Producer(
            {
                "bootstrap.servers": stack.kafka_bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        self.sent: list[Sent] = []
        self.devices = {
            kind: [f"{kind}-{n:03}" for n in range(20)] for kind in ("known", "late", "never")
        }

    def job(self) -> JobProcess:
        settings = JobSettings(
            kafka_bootstrap=self._stack.kafka_bootstrap,
            state_dir=self._folder / "persist",
            flow="tests.faults.rows_flow:FLOW",
        )
        environment = {
            **job_environment(),
            "HEADRACE_POSTGRES_URL": self._stack.postgres_url,
            "HEADRACE_WAITING_PER_ENTITY_MAX": "1000000",
        }
        return JobProcess("persist", settings, self._folder / "persist.log", environment)

    def send(self, count: int) -> None:
        """Events of devices at random, each with the state that follows."""
        numbers = Counter(sent.device for sent in self.sent)
        every = [device for kind in self.devices.values() for device in kind]
        for _ in range(count):
            device = self.chance.choice(every)
            sent = Sent(device, numbers[device], len(self.sent), self.chance.random() < 0.02)
            numbers[device] += 1
            self.sent.append(sent)
            event = {
                "id": sent.id,
                "type": "reading",
                "entity_id": device,
                "time_ms": 1_000,
                "arrived_ms": 2_000,
                "origin": ["ingest.telemetry.v1", 0, sent.place],
                "data": {"value": _WRONG if sent.is_wrong else float(sent.number)},
            }
            self._producer.poll(0)
            self._producer.produce(EVENTS, json.dumps(event), device)
            self._producer.produce(STATES, _snapshot(sent.number), device)
        self._producer.flush(60)

    def know(self, devices: list[str]) -> None:
        self._ask("INSERT INTO site (id) SELECT unnest(%s::text[])", devices)

    def kinds(self, kind: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.device.startswith(kind)]

    def stored(self, kind: str) -> int:
        ((count,),) = self._ask(
            "SELECT count(*) FROM headrace.event WHERE entity_id LIKE %s", f"{kind}%"
        )
        return int(count)

    def waits(self, kind: str = "") -> int:
        ((count,),) = self._ask(
            "SELECT count(*) FROM headrace.waiting_row WHERE line LIKE %s", f"{kind}%"
        )
        return int(count)

    def done(self) -> int:
        return self.stored("") + self.waits()

    def has_gone_on_from(self, done: int) -> bool:
        return self.done() != done

    def all_stored(self, kind: str) -> None:
        count = sum(not sent.is_wrong for sent in self.kinds(kind))
        eventually(lambda: self.stored(kind) == count, within_s=300)

    def give_up(self) -> None:
        with store.connect(self._stack.postgres_url, "rig") as connection:
            lane = PersistLane(connection)
            lane.order("give_up", lane.lines())

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._stack.postgres_url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def violations(self) -> Iterator[str]:
        stored = {
            event_id: (row_key, early)
            for event_id, row_key, early in self._ask(
                """SELECT event_id, row_key, stored_at < since FROM headrace.event
                   LEFT JOIN site ON site.id = entity_id"""
            )
        }
        told: defaultdict[str, list[str]] = defaultdict(list)
        parked: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for topic, key, value, headers in self._ask(
            "SELECT topic, key, value, headers FROM headrace.outbox ORDER BY seq"
        ):
            if topic.startswith("completion."):
                told[key.decode()].append(json.loads(value)["event_id"])
            else:
                its = {name: text for name, text, *_ in headers}
                origin = its["ce_origin"].split("/")[0]
                parked[origin].append((json.loads(value).get("id", key.decode()), its["ce_reason"]))
        for sent in self.sent:
            is_row = not sent.is_wrong and not sent.device.startswith("never")
            if is_row != (sent.id in stored):
                yield f"a row: {sent.id in stored}, and it should be {is_row}: {sent.id}"
            elif is_row and stored[sent.id][1] is not False:
                yield f"stored before its site was known: {sent.id}"
        letters = Counter(parked[EVENTS])
        for sent in self.sent:
            reason = "given_up" if sent.device.startswith("never") else "refused_by_store"
            wanted = int(sent.is_wrong or sent.device.startswith("never"))
            if letters[sent.id, reason] != wanted or wanted != sum(
                count for (name, _), count in letters.items() if name == sent.id
            ):
                yield f"not {wanted} letter of {reason}: {sent.id}"
        for kind in ("known", "late"):
            for device in self.devices[kind]:
                right = [one.id for one in self.kinds(device) if not one.is_wrong]
                if told[device] != right:
                    yield f"not completed once each in order: {device}"
        yield from self._wrong_states(Counter(name for name, _ in parked[STATES]))
        yield from self._wrong_verdicts()

    def _wrong_states(self, letters: Counter[str]) -> Iterator[str]:
        versions = dict(self._ask("SELECT id, version FROM headrace.entity_state"))
        for kind, devices in self.devices.items():
            for device in devices:
                last = len(self.kinds(device))
                version = None if kind == "never" or not last else last
                if versions.get(device) != version:
                    yield f"the state is {versions.get(device)}, not {version}: {device}"
                if kind != "never" and letters[device]:
                    yield f"a letter of a state: {device}"

    def _wrong_verdicts(self) -> Iterator[str]:
        """As the ledger's journal tells: of each payload the highest counts."""
        heard: dict[int, int] = {}
        for first, verdicts in self._ask("SELECT first, verdicts FROM headrace.ledger_journal"):
            for at, verdict in enumerate(verdicts):
                heard[first + at] = max(verdict, heard.get(first + at, 0))
        for sent in self.sent:
            verdict = 3 if sent.is_wrong or sent.device.startswith("never") else 9
            if heard.get(sent.place) != verdict:
                yield f"the ledger says {heard.get(sent.place)}, not {verdict}: {sent.id}"


def _snapshot(number: int) -> bytes:
    return snapshot.encode(Snapshot({"count": number}, version=number + 1), "f")


def _be_killed(rows: Rows, stack: Stack, events: int, kills: int, up_to_s: float) -> None:
    rows.know(rows.devices["known"])
    job = rows.job()
    late = [*rows.devices["late"]]
    for number in range(1, kills + 1):
        done = rows.done()
        job.start()
        rows.send(events // kills // 2)
        eventually(partial(rows.has_gone_on_from, done), within_s=300)
        time.sleep(rows.chance.uniform(0, up_to_s))
        if number % 3 == 2:
            stack.hold("postgres")
            time.sleep(2)
            stack.release("postgres")
        rows.send(events // kills // 2)
        if number > kills // 2:
            rows.know(late[: len(late) // 2])
            del late[: len(late) // 2]
        time.sleep(rows.chance.uniform(0, up_to_s))
        job.kill()
        say(f"kill {number}: {len(rows.sent)} sent, {rows.stored('')} stored, {rows.waits()} wait")
    with rows.job():
        rows.send(events // kills)
        rows.all_stored("known")  # whatever waits
        assert rows.waits() > 0
        rows.know(late)
        rows.all_stored("late")
        eventually(lambda: rows.waits("late") == 0, within_s=300)  # their states
        rows.give_up()
        eventually(lambda: rows.waits() == 0, within_s=300)


def run(folder: Path, events: int, kills: int, seed: int, up_to_s: float) -> int:
    servers = ("kafka", "postgres")
    with Stack(folder / "servers", random_ports=True, services=servers) as stack:
        rows = Rows(folder, stack, seed)
        ensure_topics(FLOW, JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder))
        schema.migrate(stack.postgres_url)
        with psycopg.connect(stack.postgres_url, autocommit=True) as connection:
            connection.execute(_OF_THE_USER)
        _be_killed(rows, stack, events, kills, up_to_s)
        found = list(rows.violations())
    print(
        f"seed {seed}: {len(rows.sent)} events with their states, {kills} kills, "
        f"{len(found)} violations"
    )
    print(*found[:20], sep="\n")
    return 1 if found else 0


def main() -> int:
    return by_hand(
        __doc__,
        run,
        {
            "events": (20_000, None),
            "kills": (20, None),
            "up_to_s": (5.0, "so long it goes on after its first rows, twice"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
