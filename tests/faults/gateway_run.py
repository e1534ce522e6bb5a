"""The gateway alone against a real broker, hurt as a seed says.

python -m tests.faults.gateway_run --seed 7 --posts 200000 --faults 60
"""

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.faults.broker import read_topic
from tests.faults.by_hand import say
from tests.faults.client_answers import Ledger, Told
from tests.faults.gateway_faults import KINDS, Fault, plan
from tests.faults.load import TOPIC, Load
from tests.faults.oracles import doubled, violations
from tests.faults.rig import Rig


class Report(NamedTuple):
    seed: int
    posts: int
    payloads: int
    told: Counter[Told]
    fired: Counter[str]
    doubled: int
    violations: list[str]
    resident_mib: float  # the most

    def __str__(self) -> str:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(self.told.items()))
        fired = ", ".join(f"{name} {count}" for name, count in sorted(self.fired.items()))
        return (
            f"seed {self.seed}: {self.posts} POSTs of {self.payloads} payloads ({told}); "
            f"{self.fired.total()} faults of "
            f"{len(self.fired)} kinds ({fired}); {self.doubled} records doubled, "
            f"{self.resident_mib:.0f} MiB resident at most, {len(self.violations)} violations"
        )


class Exactly(random.Random):
    """For one fault of a length that somebody asked for."""

    def __init__(self, seconds: float) -> None:
        super().__init__(0)
        self._seconds = seconds

    def uniform(self, _least: float, _most: float) -> float:
        return self._seconds


async def run(
    folder: Path, seed: int, posts: int, faults: list[Fault], chance: random.Random, per_s: float
) -> Report:
    ledger = Ledger(folder / "ledger.jsonl")
    fired: Counter[str] = Counter()
    most_mib = 0.0
    async with Rig(folder, spool_after_s=1.0, produce_deadline_s=3.0) as rig:
        await rig.healed()
        load = Load(rig.port, ledger, seed, per_s)
        loading = asyncio.create_task(load.run())
        try:
            for number, fault in enumerate(faults):
                begun_s = time.monotonic()
                await fault(rig, chance)
                fired[fault.__name__] += 1
                took_s = time.monotonic() - begun_s
                most_mib = max(most_mib, rig.resident_mib())
                say(f"{number + 1:3} {fault.__name__} ({took_s:.1f} s), {load.answered} answered")
                await asyncio.sleep(0.2 + chance.random())
            while load.answered < posts:
                await asyncio.sleep(0.1)
            # Faults that follow close on each other may leave the spool no time to empty. After the
            # last one the gateway writes to the log again, under the load that goes on: on a busy
            # machine it takes minutes to send what is spooled meanwhile.
            before = load.written
            await rig.until(lambda: load.written > before, 240)
        finally:
            load.over = True
            await loading
        await rig.healed()
        ledger.sync()
        topic = await asyncio.to_thread(read_topic, rig.broker.bootstrap, TOPIC)
    sent = list(ledger.sent.values())
    told = Counter(one.told for one in sent)
    found = violations(sent, topic)
    return Report(seed, load.answered, len(sent), told, fired, doubled(topic), found, most_mib)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--posts", type=int, default=200_000)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--per-s", type=float, default=700.0)
    parser.add_argument("--only", help="one fault of that many seconds: broker_frozen=60")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    chance = random.Random(options.seed)
    faults = plan(chance, options.faults)
    if options.only:
        name, _, seconds = options.only.partition("=")
        faults = [next(fault for fault in KINDS if fault.__name__ == name)]
        chance = Exactly(float(seconds))
    with tempfile.TemporaryDirectory() as folder:
        asked = options.seed, options.posts, faults, chance, options.per_s
        report = asyncio.run(run(Path(folder), *asked))
    print(report)
    for violation in report.violations[:50]:
        print(violation)
    return 1 if report.violations or report.fired.total() < len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
