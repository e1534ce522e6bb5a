"""Payloads of many events on a whole stack that is killed again and again: each event counts once,
or none of its payload's do, and the ledger closes."""

import gzip
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import cbor2
import psycopg
import pytest

from local_stack.run.stack import Stack
from tests.fleet.conftest import FOLDERS
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, wait_for_states

pytestmark = [pytest.mark.stack, pytest.mark.long]

TRUCKS, METERS, POSTS = 20, 10, 10
KILLED = ("spark", "gateway", "relay", "spark")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    path = ":".join(map(str, FOLDERS))
    settings = {"HEADRACE_FLOW": "fleet_and_meter:FLOW", "PYTHONPATH": path}
    folder = tmp_path_factory.mktemp("fleet")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


class Truck:
    """What it sends, and what must come of it."""

    def __init__(self, number: int) -> None:
        self.name, self.chance = f"truck-{number}", random.Random(number)
        self.fixes: list[tuple[float, float]] = []
        self.bars: dict[str, list[float]] = {}
        self.events = self.stored = self.dropped = self.parked = 0

    def batches(self) -> Iterator[bytes]:
        for number in range(POSTS):
            at = START + timedelta(hours=number)
            fixes = [
                (self.chance.uniform(-9, 9), self.chance.uniform(-9, 9))
                for _ in range(self.chance.choice([0, 1, 12, 30]))
            ]
            tires = [
                (wheel, self.chance.uniform(1, 3))
                for wheel in self.chance.sample(["fl", "fr", "rl", "rr"], self.chance.randint(0, 4))
            ]
            kind = self.chance.choice(["road"] * 8 + ["workshop", "broken"])
            said = {
                "mode": "road" if kind == "broken" else kind,
                "fixes": [
                    {"at": at + timedelta(seconds=n), "lat": lat, "lon": lon}
                    for n, (lat, lon) in enumerate(fixes)
                ],
                "tires": [{"wheel": wheel, "bar": bar} for wheel, bar in tires],
            }
            if kind == "broken":  # the last of its tires spoils all of it
                said["tires"].append({"wheel": "fl", "bar": "much"})
                self.parked += 1
            elif kind == "workshop" or not (fixes or tires):
                self.dropped += 1
            else:
                self.stored += 1
                self.events += len(fixes) + len(tires)
                self.fixes += fixes
                for wheel, bar in tires:
                    self.bars.setdefault(wheel, []).append(bar)
            yield cbor2.dumps(said)

    def states(self) -> Iterator[tuple[tuple[str, str], Any]]:
        if self.fixes:
            lat, lon = self.fixes[-1]
            state = {"truck": self.name, "fixes": len(self.fixes), "last": {"lat": lat, "lon": lon}}
            yield ("truck", self.name), {**state, "north_most": max(lat for lat, _ in self.fixes)}
        for wheel, bars in self.bars.items():
            name = f"{self.name}:{wheel}"
            state = {"wheel": name, "bar": bars[-1], "lowest": min(bars), "measured": len(bars)}
            yield ("wheel", name), state


class Meter:
    def __init__(self, number: int) -> None:
        self.name, self.chance = f"meter-{number}", random.Random(1000 + number)
        self.kwh: dict[str, float] = {}
        self.events = 0
        self.stored = 0

    def days(self) -> Iterator[bytes]:
        for day in range(POSTS):
            hours = range(24 * day + 1, 24 * day + self.chance.randint(2, 25))
            lines = [(hour, round(self.chance.uniform(0, 5), 3)) for hour in hours]
            self.kwh |= {str(hour): kwh for hour, kwh in lines}
            self.events += len(lines)
            self.stored += 1
            yield "".join(["hour,kwh\n", *(f"{hour},{kwh}\n" for hour, kwh in lines)]).encode()

    def states(self) -> Iterator[tuple[tuple[str, str], Any]]:
        state = {"meter": self.name, "lines": self.events, "kwh_by_hour": self.kwh}
        yield ("meter", self.name), state


def test_each_event_of_each_payload_counts_once_through_kills(stack: Stack) -> None:
    trucks, meters = [Truck(n) for n in range(TRUCKS)], [Meter(n) for n in range(METERS)]

    def drive(truck: Truck) -> None:
        for number, body in enumerate(truck.batches()):
            zipped = truck.chance.random() < 0.7
            headers = {"content-type": "application/cbor"}
            headers |= {"content-encoding": "gzip"} if zipped else {}
            body = gzip.compress(body) if zipped else body
            key = f"{truck.name}-{number}"
            for _ in range(truck.chance.choice([1, 1, 1, 2])):  # some are sent twice
                post_until_accepted(stack, f"/v1/batch/{truck.name}", body, key, headers)
            time.sleep(truck.chance.uniform(0, 5))

    def measure(one: Meter) -> None:
        for number, body in enumerate(one.days()):
            post_until_accepted(stack, f"/v1/day/{one.name}", body, f"{one.name}-{number}")
            time.sleep(one.chance.uniform(0, 5))

    with killing(stack, KILLED, every_s=7), ThreadPoolExecutor(TRUCKS + METERS) as pool:
        done = [*(pool.submit(drive, one) for one in trucks)]
        done += [pool.submit(measure, one) for one in meters]
        for one in done:
            one.result()

    wait_for_states(stack, dict(state for one in (*trucks, *meters) for state in one.states()))

    def rows(query: bytes) -> Any:
        with psycopg.connect(stack.postgres_url) as connection:
            return connection.execute(query).fetchall()

    events = sum(one.events for one in (*trucks, *meters))
    eventually(lambda: rows(b"SELECT count(*) FROM headrace.event") == [(events,)], within_s=240)

    def ledger() -> dict[str, tuple[int, ...]]:
        found = rows(
            b"SELECT topic, sum(stored)::int, sum(dropped)::int, sum(parked)::int, "
            b"sum(difference)::int, "
            b"sum(ends - begins - stored - duplicate - late_duplicate - dropped - parked)::int "
            b"FROM headrace.ledger_partition WHERE of_payloads GROUP BY topic"
        )
        return {topic: tuple(counts) for topic, *counts in found}

    expected = {
        "ingest.batch.v1": sum(one.stored for one in trucks),
        "ingest.day.v1": sum(one.stored for one in meters),
    }

    def balanced() -> bool:
        found = ledger()
        return {topic: counts[0] for topic, counts in found.items()} == expected and all(
            counts[3:] == (0, 0) for counts in found.values()
        )

    try:
        eventually(balanced, within_s=240)
    except AssertionError as error:
        raise AssertionError(f"{ledger()}, stored should be {expected}") from error
    # what is sent twice is dropped or parked twice
    assert ledger()["ingest.batch.v1"][1] >= sum(one.dropped for one in trucks)
    assert ledger()["ingest.batch.v1"][2] >= sum(one.parked for one in trucks)
    completed = {
        record.key
        for kind in ("fix", "pressure", "usage")
        for record in read_topic(stack.kafka_bootstrap, f"completion.{kind}.v1")
    }
    names = {one.name for one in (*trucks, *meters)}
    assert {(key or b"").decode().partition(":")[0] for key in completed} <= names
