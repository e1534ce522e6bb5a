"""What the states of many entities were, against what a watcher saw as it passed: through two
versions of a domain, deletions, and letters that are mended and fold the past anew.

python -m tests.faults.history_run --entities 1000
"""

import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from typer.testing import CliRunner

from local_stack import cli
from tests.end_to_end.launcher import Launcher
from tests.faults.by_hand import by_hand, say
from tests.kafka_log import eventually
from tests.seen_states import Watcher, assert_history, assert_told_as_seen, is_all_stored

_FLOW = "tests.faults.history_flow:"
_FRAMES = {"content-type": "application/vnd.headrace.frames"}
_IN_A_POST = 1_000
_BETWEEN_S = 2.0  # so that most are folded by themselves
_AT_ONCE = 8  # questions: the gateway refuses more than sixteen


class Posted(NamedTuple):
    offset: int  # one partition holds all of a meter's payloads
    id: str
    litres: int | None  # None: it removes the meter
    in_litres: bool  # which the first version of the domain does not know


class Run:
    def __init__(self, folder: Path, entities: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.meters = [f"meter-{number:04}" for number in range(entities)]
        self.gallons = self.chance.sample(range(10**7), 30 * entities)
        self.posted: dict[str, list[Posted]] = defaultdict(list)
        self.launcher = Launcher(folder / "state", {"HEADRACE_FLOW": f"{_FLOW}BEFORE"})
        self.http = httpx.Client(base_url=self.launcher.gateway_url, timeout=60, trust_env=False)

    def post(self, endpoint: str, payloads: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]]:
        receipts: list[dict[str, Any]] = []
        for begin in range(0, len(payloads), _IN_A_POST):
            some = payloads[begin : begin + _IN_A_POST]
            framed = [b"%s %d\n%s\n" % (key.encode(), len(body), body) for key, body in some]
            answer = self.http.post(f"/v1/{endpoint}", content=b"".join(framed), headers=_FRAMES)
            assert answer.json().get("refused") == 0, answer.text
            receipts += answer.json()["receipts"]
        return receipts

    def levels(self, part_in_litres: float) -> None:
        """One to three of each meter, no two alike."""
        sent = []
        for meter in self.meters * self.chance.choice([1, 2, 3]):
            gallons, in_litres = self.gallons.pop(), self.chance.random() < part_in_litres
            body = b'{"litres": %d}' % (4 * gallons) if in_litres else b'{"gallons": %d}' % gallons
            sent.append((meter, body, 4 * gallons, in_litres))
        receipts = self.post("level", [(meter, body) for meter, body, *_ in sent])
        for (meter, _, litres, in_litres), receipt in zip(sent, receipts, strict=True):
            posted = Posted(receipt["offset"], receipt["id"], litres, in_litres)
            self.posted[meter].append(posted)
        time.sleep(_BETWEEN_S)

    def remove(self, meters: Sequence[str]) -> None:
        receipts = self.post("removal", [(meter, b"{}") for meter in meters])
        for meter, receipt in zip(meters, receipts, strict=True):
            self.posted[meter].append(Posted(receipt["offset"], receipt["id"], None, False))
        time.sleep(_BETWEEN_S)

    def until_stored(self, watcher: Watcher, with_litres: bool) -> None:
        def is_through(meter: str) -> bool:
            seen = watcher.seen[meter]
            if not seen or not is_all_stored(self.http, meter, seen):
                return False
            life = self.life(meter, with_litres)
            return bool(seen[-1].state["count"] == len(life))

        for meter in self.meters:
            eventually(lambda: is_through(meter), 600)  # noqa: B023

    def life(self, meter: str, with_litres: bool) -> list[Posted]:
        """What makes its state: all since it was removed last, in the order of the log."""
        posted = sorted(self.posted[meter])
        removed = [one.offset for one in posted if one.litres is None]
        begins = max(removed, default=-1)
        return [
            one
            for one in posted
            if one.offset > begins and one.litres is not None and (with_litres or not one.in_litres)
        ]

    def assert_why(self, meter: str) -> None:
        life = self.life(meter, with_litres=True)
        highest = max(life, key=lambda one: one.litres or 0)
        expected = {
            "meter": (meter, None),
            "litres": (life[-1].litres, life[-1].id),
            "highest": (highest.litres, highest.id),
            "count": (len(life), life[-1].id),
        }
        fields = self.http.get(f"/state/{meter}/why").json()["fields"]
        told = {
            name: (one["value"], one["event"] and one["event"]["payload"]["id"])
            for name, one in fields.items()
        }
        assert told == expected, (meter, told, expected)


def run(folder: Path, seed: int, entities: int) -> int:
    say(f"seed {seed}")
    it = Run(folder, entities, seed)
    try:
        say(f"ready in {it.launcher.start():.0f} s, of the first version")
        watcher = Watcher(it.launcher.status()["kafka_bootstrap"], "state.meter.v1")
        with watcher.at_work():
            it.levels(part_in_litres=0)
            eventually(lambda: len(watcher.seen) == entities, 600)  # Spark has begun
            for _ in range(3):
                it.levels(part_in_litres=0.05)
            it.remove(it.meters[::10])
            it.levels(part_in_litres=0)  # whose state began anew has one, whatever comes
            it.levels(part_in_litres=0.05)
            it.until_stored(watcher, with_litres=False)
        say(f"{_versions(watcher)} versions seen")
        it.launcher.press_ctrl_c()

        it.launcher.more["HEADRACE_FLOW"] = f"{_FLOW}AFTER"
        say(f"ready in {it.launcher.start():.0f} s, of the second one")
        second = Watcher(it.launcher.status()["kafka_bootstrap"], "state.meter.v1")
        with second.at_work():
            for _ in range(2):
                it.levels(part_in_litres=0.5)
            letters = redrive(it.launcher.state_dir)
            it.levels(part_in_litres=0.5)
            it.until_stored(second, with_litres=True)
        assert all(second.seen[meter][: len(was)] == was for meter, was in watcher.seen.items())
        versions = _versions(second)
        say(f"{versions} versions seen, {letters} letters mended")
        return judge(it, second)
    finally:
        it.launcher.end()


def redrive(state_dir: Path) -> int:
    arguments = ["letters", "redrive", "--all", "--state-dir", str(state_dir), "-o", "json"]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return int(json.loads(done.stdout)["sent"])


def judge(it: Run, watcher: Watcher) -> int:
    began_s = time.monotonic()
    violations: list[str] = []

    def one(meter: str) -> int:
        seen = watcher.seen[meter]
        try:
            assert_history(it.http, meter, seen)
            it.assert_why(meter)
            return assert_told_as_seen(it.http, meter, seen)
        except (AssertionError, httpx.HTTPError, KeyError) as error:
            violations.append(f"{meter}: {error!r}")
            return 0

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        skipped = sum(pool.map(one, it.meters))
    for line in violations[:10]:
        say(line)
    took_s = time.monotonic() - began_s
    kinds = Counter(bool(one.deleted) for seen in watcher.seen.values() for one in seen)
    print(
        f"{len(it.meters)} entities, {sum(map(len, it.posted.values()))} payloads, "
        f"{kinds[False]} versions and {kinds[True]} deletions seen, {skipped} that nobody saw; "
        f"{len(violations)} violations; asked within {took_s:.0f} s"
    )
    return 1 if violations else 0


def _versions(watcher: Watcher) -> int:
    return sum(map(len, watcher.seen.values()))


if __name__ == "__main__":
    what = {"entities": (1_000, None)}
    sys.exit(by_hand(__doc__, run, what))
