"""What broken payloads cost the whole stack, and whether each arrives in the dead letters as sent.

    python -m benchmarks.poison_rate --payloads 500000 --rounds 2

A stack of its own (`./headrace up`), gateway to PostgreSQL and `/state`. Rounds in turn, so that
all of them meet the same machine: only good payloads, then with one in a hundred broken (10,000 a
million). A round lasts from its first POST until the ledger has nothing in flight and every job has
worked off its log; a first, smaller one is not counted.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from statistics import median

import httpx
from confluent_kafka import Consumer, TopicPartition

from benchmarks.processes import cpu_s
from local_stack.verbs.ledger import from_database
from shared.flow import FLOW
from tests.end_to_end.launcher import Launcher

POISON_EVERY = 100
DEVICES = 96
_BATCH = 1_000
_BROKEN = (  # each ends in the dead letters for another reason
    b'{"value": %d, "temp_f":',
    b'{"value": "warm", "temp_f": "warm", "n": %d}',
    b'{"note": "\\u0000", "value": 1, "temp_f": 1, "n": %d}',
    b'{"other": %d}',
    b'{"value": 1, "temp_f": 1, "note": "\xff", "n": %d}',
)
_numbers = itertools.count()


def payloads(count: int, *, poison: bool) -> Iterator[tuple[bytes, bool]]:
    """Each is the only one of its bytes; and whether it is broken."""
    for number in itertools.islice(_numbers, count):
        if poison and number % POISON_EVERY == 0:
            yield _BROKEN[number // POISON_EVERY % len(_BROKEN)] % number, True
        else:
            value = number % 80
            yield b'{"value": %d, "temp_f": %d, "n": %d}' % (value, value, number), False


class Bench:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._http = httpx.Client(base_url=launcher.gateway_url, timeout=60, trust_env=False)
        self.accepted = 0
        self.broken: Counter[bytes] = Counter()  # by their SHA-256

    def round(self, count: int, *, poison: bool) -> tuple[float, float]:
        """Payloads a second, and the CPU microseconds of all processes for each."""
        began_s, began_cpu_s = time.monotonic(), cpu_s(self._launcher.pid)
        stream = payloads(count, poison=poison)
        for batch in iter(lambda: list(itertools.islice(stream, _BATCH)), []):
            self._post(f"device-{self.accepted // _BATCH % DEVICES + 1:04}", batch)
        self._until(self._is_drained)
        took_s = time.monotonic() - began_s
        return count / took_s, (cpu_s(self._launcher.pid) - began_cpu_s) / count * 1e6

    def _post(self, device: str, batch: list[tuple[bytes, bool]]) -> None:
        answer = self._http.post(
            f"/v1/telemetry/{device}",
            content=b"\n".join(body for body, _ in batch),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == 207, answer.text
        assert answer.json()["refused"] == 0, answer.text[:300]
        self.accepted += len(batch)
        self.broken.update(sha256(body).digest() for body, is_broken in batch if is_broken)

    def _is_drained(self) -> bool:
        jobs = self._http.get("/health").json()["checks"]
        lag = [c[0].get("lag_records") for name, c in jobs.items() if name.startswith("job:")]
        ledger = from_database(None, None, time.time_ns() // 1_000_000, self._launcher.state_dir)
        return (
            ledger["received"] == self.accepted
            and ledger["in_flight"] == ledger["difference"] == 0
            and not any(lag)
        )

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 1_800
        while not holds():
            assert time.monotonic() < deadline_s, "it never drained"
            time.sleep(0.5)

    def letters(self) -> Counter[bytes]:
        """What lies in the dead letters, by its SHA-256."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._launcher.status()["kafka_bootstrap"],
                "group.id": "bench",
                "enable.auto.commit": False,
            }
        )
        found: Counter[bytes] = Counter()
        for topic in (lane for lane in FLOW.lanes if lane.startswith("dlq.")):
            for partition in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
                at = TopicPartition(topic, partition, 0)
                low, high = consumer.get_watermark_offsets(at, timeout=20)
                consumer.assign([at])
                while low < high:
                    for message in consumer.consume(10_000, 1.0):
                        low = (message.offset() or 0) + 1
                        found[sha256(message.value() or b"").digest()] += 1
        consumer.close()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payloads", type=int, default=500_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=2, help="of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-poison-") as folder:
        launcher = Launcher(Path(folder) / "state")
        try:
            print(f"ready in {launcher.start():.0f} s", flush=True)
            return _measure(Bench(launcher), options.payloads, options.rounds)
        finally:
            launcher.end()


def _measure(bench: Bench, count: int, rounds: int) -> int:
    bench.round(count // 10, poison=False)
    seen: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for poison in (False, True):
            seen[poison].append(bench.round(count, poison=poison))
            rate, cost_us = seen[poison][-1]
            what = "1 % broken" if poison else "all good"
            print(f"{what}: {rate:,.0f}/s, {cost_us:.0f} CPU us each", flush=True)
    clean, broken = (
        [median(column) for column in zip(*seen[poison], strict=True)] for poison in (False, True)
    )
    print(f"rate {broken[0] / clean[0]:.3f} x, CPU {broken[1] / clean[1]:.3f} x of all good")
    found = bench.letters()
    print(
        f"{bench.broken.total():,} broken, {found.total():,} letters, "
        f"{(bench.broken - found).total()} missing, {(found - bench.broken).total()} too many"
    )
    return 0 if found == bench.broken else 1


if __name__ == "__main__":
    sys.exit(main())
