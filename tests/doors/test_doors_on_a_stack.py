"""Doors on a whole stack that is killed while the directory is away: nothing is lost or parked,
each door keeps its order, and doors that need no directory are not held up."""

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import httpx
import psycopg
import pytest

from local_stack.run.stack import Stack
from tests.doors.conftest import FOLDER
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, wait_for_states
from tests.played_service import PlayedService, Way, answering, good, hangs_up, played, silent

pytestmark = pytest.mark.stack

OUTAGE_S = float(os.environ.get("HEADRACE_TEST_OUTAGE_S", 40))
BADGED, FREE = range(16), range(16, 20)  # doors; the free ones have no reader
KILLED = ("spark", "gateway", "spark", "relay")


@pytest.fixture(scope="module")
def directory() -> Iterator[PlayedService]:
    with played(good) as service:
        yield service


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, directory: PlayedService) -> Iterator[Stack]:
    settings = {
        "HEADRACE_FLOW": "doors:FLOW",
        "PYTHONPATH": str(FOLDER),
        "DIRECTORY_URL": directory.url,
    }
    with Stack(tmp_path_factory.mktemp("doors"), random_ports=True, settings=settings) as stack:
        yield stack


def away(ways: Iterator[Way]) -> Way:
    """In each of these ways in turn."""
    return lambda request: next(ways)(request)


class DoorMan:
    """Sends what one door does, in its order, and knows what must come of it."""

    def __init__(self, number: int) -> None:
        self.name, self.chance = f"door-{number}", random.Random(number)
        self.has_reader = number in BADGED
        self.sent = 0
        self.state: dict[str, Any] = {
            "door": self.name, "allowed": 0, "denied": 0,
            "last_holder": None, "open": False, "opened_by": [],
        }  # fmt: skip

    def next(self, stack: Stack) -> None:
        self.sent += 1
        key = f"{self.name}-{self.sent}"
        if self.has_reader and self.chance.random() < 0.6:
            badge = self.chance.choice(["stranger-1", "b-1", "b-2", "b-3"])
            body = b'{"badge": "%s"}' % badge.encode()
            post_until_accepted(stack, f"/v1/badge/{self.name}", body, key)
            if badge.startswith("stranger"):
                self.state["denied"] += 1
            else:
                self.state |= {"last_holder": f"holder of {badge}"}
                self.state["allowed"] += 1
        else:
            opens = self.chance.random() < 0.5
            body = b'{"open": true}' if opens else b'{"open": false}'
            post_until_accepted(stack, f"/v1/contact/{self.name}", body, key)
            if opens and not self.state["open"]:
                self.state["opened_by"].append(self.state["last_holder"])
            self.state["open"] = opens


def test_a_trial_really_asks_the_directory(stack: Stack) -> None:
    url = f"{stack.desk_url}/api/try/badge/door-99"
    found = httpx.post(url, content=b'{"badge": "b-1"}', timeout=30).json()
    (event,) = found["events"]
    assert event["data"] == {"badge": "b-1", "holder": "holder of b-1", "allowed": True}
    assert [*event["saw"]] == ["directory/b-1"]


def test_nothing_is_lost_or_parked_and_each_door_keeps_its_order(
    stack: Stack, directory: PlayedService
) -> None:
    men = [DoorMan(number) for number in (*BADGED, *FREE)]
    until_s = time.monotonic() + OUTAGE_S

    def work(man: DoorMan) -> None:
        for _ in range(3):  # some of it before the directory goes away
            man.next(stack)
        while time.monotonic() < until_s:
            man.next(stack)
            time.sleep(man.chance.uniform(0.5, 4) * OUTAGE_S / 40)

    every_s = OUTAGE_S / (len(KILLED) + 1)
    with killing(stack, KILLED, every_s), ThreadPoolExecutor(len(men)) as pool:
        done = [pool.submit(work, man) for man in men]
        time.sleep(2)
        directory.way = away(cycle((answering(503), hangs_up, silent)))
        for one in done:
            one.result()
    # still away: whoever does not need it is through
    free = [man for man in men if not man.has_reader]
    wait_for_states(stack, {("door", man.name): man.state for man in free})
    assert read_topic(stack.kafka_bootstrap, "retry.enrich.v1") != []
    directory.way = good
    wait_for_states(stack, {("door", man.name): man.state for man in men})

    assert read_topic(stack.kafka_bootstrap, "dlq.enrich.v1") == []
    with psycopg.connect(stack.postgres_url) as connection:

        def rows() -> Any:
            return connection.execute(
                "SELECT count(*), count(DISTINCT event_id) FROM headrace.event"
            ).fetchone()

        sent = sum(man.sent for man in men)
        eventually(lambda: rows() == (sent, sent), within_s=240)

    def gates() -> set[bytes]:
        latest = {one.key: one.value for one in read_topic(stack.kafka_bootstrap, "gate.enrich.v1")}
        return {key or b"" for key, value in latest.items() if value is not None}

    eventually(lambda: not gates(), within_s=240)
