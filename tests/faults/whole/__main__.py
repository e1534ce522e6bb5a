"""`./headrace torture`: whole stacks of their own, hurt under load as seeds say, and judged."""

import argparse
import asyncio
import json
import random
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_stack.machine.downloads import (
    fetch_downloads,
    fetch_for_object_stores,
    fetch_for_tests,
)
from local_stack.machine.java import find_java
from tests.faults.whole import cut_network
from tests.faults.whole.cluster import (
    CLUSTER_KINDS,
    CUT_KINDS,
    NEVER_THERE,
    STORE_KINDS,
    WITHOUT_STORE,
)
from tests.faults.whole.faults import KINDS, plan
from tests.faults.whole.gateways import GATEWAY_KINDS
from tests.faults.whole.inject.rig_mutants import FAULTS, MUTANTS
from tests.faults.whole.rig import Rig
from tests.faults.whole.run import Load, Report, run
from tests.faults.whole.run_log import say

_SHOWN_VIOLATIONS = 20


def main() -> int:
    options = _options()
    if options.mutant in FAULTS:
        options.only, options.away_s = [FAULTS[options.mutant]], 12.0
    if options.workers:
        _fetch_all(options.store)  # from there no registry is reached
        cut_network.enter_own_network("tests.faults.whole")
    kinds = [*KINDS, *(CLUSTER_KINDS if options.workers else ())]
    kinds = [k for k in kinds if not (options.workers and k in NEVER_THERE)]
    kinds += CUT_KINDS if cut_network.can_be_cut() else ()
    kinds += GATEWAY_KINDS if options.gateways > 1 else ()
    if options.store:
        kinds = [k for k in kinds if not k.startswith(WITHOUT_STORE)]
        kinds += STORE_KINDS
    kinds = [k for k in kinds if any(word in k for word in options.only or [""])]
    kinds = [k for k in kinds if not any(word in k for word in options.without or [])]
    if options.list:
        print("\n".join(kinds))
        return 0
    if not kinds:
        print("no kind of fault has such words: --list shows all", file=sys.stderr)
        return 2
    done = _read(options.resume)
    seeds = [seed for seed in options.seeds if not any(d["seed"] == seed for d in done)]
    for number, seed in enumerate(seeds):
        if options.at_most is not None and number >= options.at_most:
            break
        faults = plan(random.Random(f"plan {seed}"), options.faults, kinds)
        say(f"seed {seed}: {options.events} messages, {len(faults)} faults")
        try:
            report = asyncio.run(_one(seed, faults, options))
        except KeyboardInterrupt:
            say(f"seed {seed} was ended before it could be judged")
            return 130
        for violation in report.violations[:_SHOWN_VIOLATIONS]:
            print(f"VIOLATION {violation[:1500]}", flush=True)
        done.append(report.as_document())
        if options.resume:
            options.resume.write_text("".join(json.dumps(one) + "\n" for one in done))
    print("\n".join(table(done)))
    return 0 if all(one["is_good"] for one in done) else 1


def _fetch_all(store: bool) -> None:
    java = find_java()
    fetch_downloads(java)
    if store:
        fetch_for_object_stores(java)
        fetch_for_tests("S3Mock", ["s3mock"], java)


async def _one(seed: int, faults: Sequence[str], options: argparse.Namespace) -> Report:
    folder = options.folder or Path(tempfile.mkdtemp(prefix=f"headrace-torture-{seed}-"))
    async with Rig(
        folder,
        options.away_s,
        options.mutant,
        workers=options.workers,
        gateways=options.gateways,
        stores=options.store,
    ) as rig:
        await rig.start()
        what = options.events, options.per_s, options.lines_per_s, options.times
        report = await run(rig, seed, Load(*what, options.all_clients), faults)
    if report.is_good and not options.folder:
        shutil.rmtree(folder)
    else:
        say(f"all that is left of it lies in {folder}")
    return report


def table(done: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each seed, then how often each kind of fault happened."""
    lines = [
        "| seed | payloads | sent | accepted | faults | doubled in the log | longest until well "
        "| held after | violations | took |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    fired: Counter[str] = Counter()
    for one in done:
        fired.update(one["fired"])
        doubled = ", ".join(f"{count} {what}" for what, count in one["doubled"].items())
        lines.append(
            f"| {one['seed']} | {one['messages']:,} | {one['tries']:,} | {one['accepted']:,} "
            f"| {sum(one['fired'].values())} of {one['planned']} | {doubled} "
            f"| {one['longest_until_well_s']:.0f} s "
            f"| {one['held_after_s']:.0f} s | {len(one['violations'])} "
            f"| {one['seconds']:.0f} s |"
        )
    lines += ["", f"{fired.total()} faults of {len(fired)} kinds:"]
    return lines + [f"{count:4}  {name}" for name, count in sorted(fired.items())]


def _read(resume: Path | None) -> list[dict[str, Any]]:
    if resume is None or not resume.exists():
        return []
    return [json.loads(line) for line in resume.read_text().splitlines()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace torture", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seed", type=int, help="what to repeat; default: one by chance")
    what.add_argument("--seeds", type=_range, help="several, one after the other: 1-20")
    parser.add_argument("--events", type=int, default=40_000, help="payloads at least")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--per-s", type=float, default=150.0, help="requests a second at most")
    parser.add_argument(
        "--lines-per-s", type=float, default=200.0, help="payloads in batches, beside those"
    )
    parser.add_argument(
        "--all-clients", action="store_true", help="Java's and Go's clients must be there"
    )
    parser.add_argument("--times", type=int, default=1, help="what has a key is sent so often")
    parser.add_argument("--away-s", type=float, help="how long a server that goes away is away")
    parser.add_argument(
        "--mutant", default="", choices=MUTANTS, help="a mistake is put back: the run must fail"
    )
    parser.add_argument("--workers", type=int, default=0, help="the jobs on a Spark cluster")
    parser.add_argument("--gateways", type=int, default=1, help="so many, behind a balancer")
    parser.add_argument("--store", action="store_true", help="checkpoints in an object store")
    parser.add_argument("--resume", type=Path, help="results, kept there; seeds in it are done")
    parser.add_argument("--at-most", type=int, help="so many seeds now, the others another time")
    parser.add_argument("--only", action="append", help="kinds of fault that have this word")
    parser.add_argument("--without", action="append", help="no kind that has this word")
    parser.add_argument("--list", action="store_true", help="show the kinds and end")
    parser.add_argument(
        "--folder", type=Path, help="all data is kept there, and a run goes on from what is there"
    )
    options = parser.parse_args()
    if options.seeds is None:
        options.seeds = [secrets.randbelow(10**6) if options.seed is None else options.seed]
    return options


def _range(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


if __name__ == "__main__":
    sys.exit(main())
