"""How long `GET /events/{id}` takes to tell where an event is, with many events in the log.

    python -m benchmarks.whereabouts --events 10000000

A stack of its own (`./headrace up`), filled by POSTs no faster than its jobs work, so that events
lie in the log as densely as they ever do. Then ids from all of that time are asked for, one by one:
of payloads that are rows, of some that wait for their device to be registered, of some that are
dead letters, and of some that never came. At last those of rows again, while others post.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import httpx

from local_stack.verbs.ledger import from_database
from tests.end_to_end.launcher import Launcher

_BATCH = 2_000
_AHEAD_MAX = 60_000  # payloads that the jobs have not come to
_LOOK_EVERY = 10  # batches
_DEVICES = [f"device-{number:04}" for number in range(1, 1000)]
_KEPT_EVERY = 500  # payloads: whose id is kept to be asked for
_GOOD = b'{"value": %d, "temp_f": %d, "n": %d}'
_BROKEN = b'{"value": 1,5, "n": %d}'
_FRAMES = {"content-type": "application/vnd.headrace.frames"}
ROW, WAITS, LETTER, NEVER = "a row", "waits", "a dead letter", "never came"
_EXPECTED = {ROW: "stored", WAITS: "waits", LETTER: "parked"}


class Bench:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._http = httpx.Client(base_url=launcher.gateway_url, timeout=60, trust_env=False)
        self._posted = 0
        self.ids: dict[str, list[str]] = defaultdict(list)

    def fill(self, count: int) -> None:
        began_s = time.monotonic()
        for batch in range(count // _BATCH):
            self.post()
            if batch % _LOOK_EVERY == 0:
                while self._in_flight() > _AHEAD_MAX:
                    time.sleep(0.2)
            if batch % 500 == 499:
                rate = self._posted / (time.monotonic() - began_s)
                print(f"{self._posted:,} payloads, {rate:,.0f}/s", flush=True)
        while self._in_flight() > len(self.ids[WAITS]):
            time.sleep(1)

    def post(self, count: int = _BATCH) -> None:
        """With each batch, one payload that waits and one that is broken."""
        payloads = [
            (_DEVICES[n % len(_DEVICES)], _GOOD % (n % 80, n % 80, n))
            for n in range(self._posted, self._posted + count - 2)
        ]
        payloads.append((f"stranger-{self._posted}", _GOOD % (1, 1, 1)))
        payloads.append((_DEVICES[0], _BROKEN % self._posted))
        framed = [b"%s %d\n%s\n" % (key.encode(), len(body), body) for key, body in payloads]
        answer = self._http.post("/v1/telemetry", content=b"".join(framed), headers=_FRAMES).json()
        assert answer["refused"] == 0, answer
        *rows, waits, letter = (receipt["id"] for receipt in answer["receipts"])
        self._posted += count
        self.ids[ROW] += rows[::_KEPT_EVERY]
        self.ids[WAITS].append(waits)
        self.ids[LETTER].append(letter)

    def ask(self, kind: str, ids: Sequence[str]) -> str:
        """A row of the table."""
        taken_ms = []
        for id_ in ids:
            began_s = time.perf_counter()
            answer = self._http.get(f"/events/{id_}")
            taken_ms.append(1000 * (time.perf_counter() - began_s))
            if kind == NEVER:
                assert answer.status_code == 404, answer.text
            else:
                assert answer.json().get("now") == _EXPECTED[kind], answer.text
        taken_ms.sort()
        p50, p99 = (taken_ms[int(len(taken_ms) * part)] for part in (0.5, 0.99))
        return f"{len(ids)} | {p50:.1f} | {p99:.1f} | {taken_ms[-1]:.1f} |"

    @contextmanager
    def others_post(self, per_s: int) -> Iterator[None]:
        over = threading.Event()

        def post() -> None:
            with httpx.Client(base_url=self._launcher.gateway_url, trust_env=False) as http:
                body = b"".join(
                    b"%s %d\n%s\n" % (key.encode(), len(value), value)
                    for n, key in enumerate(_DEVICES[: per_s // 10])
                    for value in (_GOOD % (n % 80, n % 80, n),)
                )
                while not over.wait(0.1):
                    http.post("/v1/telemetry", content=body, headers=_FRAMES)

        poster = threading.Thread(target=post)
        poster.start()
        try:
            yield
        finally:
            over.set()
            poster.join()

    def _in_flight(self) -> int:
        """What the jobs have still to do, what waits included."""
        now_ms = time.time_ns() // 1_000_000
        ledger = from_database(None, None, now_ms, self._launcher.state_dir)
        done = ledger["stored"] + ledger["parked"]
        return self._posted - int(done)


def never_came(ids: Sequence[str], chance: random.Random) -> list[str]:
    """Of the times of these, and of nobody."""
    known = [UUID(id_).int for id_ in ids]
    return [str(UUID(int=one >> 62 << 62 | chance.getrandbits(62))) for one in known]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ask", type=int, default=1_000, help="ids of each kind")
    parser.add_argument("--per-s", type=int, default=1_000, help="posts beside the last questions")
    options = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="headrace-where-") as folder:
        launcher = Launcher(Path(folder) / "state")
        try:
            print(f"ready in {launcher.start():.0f} s", flush=True)
            bench = Bench(launcher)
            bench.fill(options.events)
            chosen = {
                kind: chance.sample(ids, min(len(ids), options.ask))
                for kind, ids in bench.ids.items()
            }
            chosen[NEVER] = never_came(chosen[ROW], chance)
            print("| asked for | ids | p50 ms | p99 ms | slowest ms |\n|---|---|---|---|---|")
            for kind, ids in chosen.items():
                print(f"| {kind} | {bench.ask(kind, ids)}", flush=True)
            with bench.others_post(options.per_s):
                told = bench.ask(ROW, chosen[ROW])
            print(f"| {ROW}, beside {options.per_s:,} posts/s | {told}")
        finally:
            launcher.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
