"""Payloads of two versions, some of which break their contract, on a whole stack that is killed:
each becomes what it should, and each breach counts once."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.run.stack import Stack
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, wait_for_states
from tests.taps.conftest import FOLDER

pytestmark = pytest.mark.stack

TAPS, POSTS = 12, 40


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"HEADRACE_FLOW": "taps:FLOW", "PYTHONPATH": str(FOLDER)}
    with Stack(tmp_path_factory.mktemp("taps"), random_ports=True, settings=settings) as stack:
        yield stack


class Tap:
    """What one sends, and what must come of it."""

    def __init__(self, number: int) -> None:
        self.name, self.chance = f"tap-{number}", random.Random(number)
        self.litres = 0
        self.breaches: Counter[tuple[str, str, str | None]] = Counter()
        self.parked: Counter[str] = Counter()

    def next(self, stack: Stack, number: int) -> None:
        amount = self.chance.randint(1, 9)
        firmware = self.chance.choice(["1.0", "1.1"])
        kind = self.chance.choice(["new", "new", "old", "text", "bare", "unknown", "useless"])
        said: dict[str, Any] = {"gallons": amount, "firmware": firmware}
        if kind == "new":
            said = {"v": 2, "litres": amount}
            self.litres += amount
        elif kind == "old":
            self.litres += 4 * amount
        elif kind == "text":
            said["gallons"] = str(amount)
            self.litres += 4 * amount
            self.breaches["gallons", "wrong_type", firmware] += 1
        elif kind == "bare":
            del said["firmware"]
            self.litres += 4 * amount
            self.breaches["firmware", "field_missing", None] += 1
        elif kind == "unknown":
            said["v"] = 3
            self.parked["unknown_version"] += 1
        else:
            said["gallons"] = "much"
            self.parked["wrong_type"] += 1
        path = f"/v1/draw/{self.name}"
        post_until_accepted(stack, path, orjson.dumps(said), f"{self.name}-{number}")


def test_each_payload_becomes_what_its_version_says_and_each_breach_counts_once(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_FLOW", "taps:FLOW")
    taps = [Tap(number) for number in range(TAPS)]

    def live(tap: Tap) -> None:
        for number in range(POSTS):
            tap.next(stack, number)

    with killing(stack, ("spark", "spark"), every_s=5), ThreadPoolExecutor(TAPS) as pool:
        list(pool.map(live, taps))
    wait_for_states(stack, {("tap", tap.name): {"litres": tap.litres} for tap in taps})

    breaches = sum((tap.breaches for tap in taps), Counter[Any]())
    eventually(lambda: _told(stack).total() >= breaches.total(), within_s=240)
    assert _told(stack) == breaches
    of_one = _told(stack, "--by-device")
    assert {(*key[1:], key[0]) for key in of_one} == {
        (*kind, tap.name) for tap in taps for kind in tap.breaches
    }
    parked = sum((tap.parked for tap in taps), Counter[str]())

    def letters() -> dict[bytes, str]:
        return {
            record.headers["ce_origin"]: record.headers["ce_reason"].decode()
            for record in read_topic(stack.kafka_bootstrap, "dlq.enrich.v1")
        }

    # no state follows from the last ones, so the wait above did not wait for them
    eventually(lambda: len(letters()) >= parked.total())
    assert Counter(letters().values()) == parked
    marked = {
        record.headers["ce_origin"]: record.headers["ce_breach"].decode()
        for record in read_topic(stack.kafka_bootstrap, "event.drawn.v1")
        if "ce_breach" in record.headers
    }
    assert Counter(marked.values()) == Counter(
        f"{code}: {place}" for place, code, _ in breaches.elements()
    )


def _told(stack: Stack, *options: str) -> Counter[Any]:
    arguments = ("breaches", *options, "-o", "json", "--state-dir", str(stack.state_dir))
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.exception
    return Counter(
        {
            (
                *([row["device"]] if "device" in row else []),
                *(row["place"], row["code"], row["firmware"]),
            ): row["payloads"]
            for row in json.loads(done.stdout)
        }
    )
