"""Whether `./headrace plan` foretells a run that its figures have not seen.

    python -m benchmarks.plan_check [--measured plan.json]

Measures, as `--measure` does, or takes what was measured; then another load on a new stack, with
other rates, payloads, entities and POSTs: some seconds of few events, and an outage of the jobs
with a backlog. What was foretold stands beside what was seen. CPU time is compared; where the
machine is busy with other things, the time to catch up is that of the cores that were to be had.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from local_stack.measuring.measure import measured
from local_stack.measuring.rig import Rig
from local_stack.measuring.samples import Load
from local_stack.plan import costs_file
from local_stack.plan.costs import Costs
from local_stack.plan.need import Need
from local_stack.plan.parts import JOBS
from local_stack.plan.times import one_machine, worked_off_s
from local_stack.plan.work import Work

_BYTES, _ENTITIES, _PER_POST, _PER_S = 450, 6_000, 5, 400.0
_QUICK = 150_000  # for long enough that its end, at which the cores have less to do, is no matter
_MAY_BE_OFF = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, help="a plan.json of before")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--backlog", type=int, default=40_000)
    options = parser.parse_args()
    known = (
        costs_file.from_json(json.loads(options.measured.read_text()))
        if options.measured
        else measured()
    )
    rows = _compare(known, options.seconds, options.backlog)
    print("| | foretold | seen | off |\n|---|---|---|---|")
    for what, foretold, seen in rows:
        print(f"| {what} | {foretold:,.2f} | {seen:,.2f} | {foretold / seen - 1:+.0%} |")
    return int(any(abs(told / seen - 1) > _MAY_BE_OFF for _, told, seen in rows))


def _compare(known: Costs, seconds: float, backlog: int) -> list[tuple[str, float, float]]:
    common = {"entities": _ENTITIES, "body_bytes": _BYTES}
    with tempfile.TemporaryDirectory(prefix="headrace-plan-") as folder, Rig(Path(folder)) as rig:
        rig.run(Load("warm", events=20_000, **common))
        quick = rig.run(Load("quick", events=_QUICK, **common))
        few = Load("few", round(seconds * _PER_S), per_post=_PER_POST, per_s=_PER_S, **common)
        before, began_s = rig.cpu_s(), time.monotonic()
        rig.post(few)
        took_s = time.monotonic() - began_s
        used = sum(rig.cpu_s().values()) - sum(before.values())
        rig.wait_until_drained()
        memory = sum(rig.memory_mib().values())
        rig.hold(*JOBS)
        rig.post(Load("waits", events=backlog, **common))
        before, began_s = rig.cpu_s(), time.monotonic()
        rig.release(*JOBS)
        rig.wait_until_drained()
        caught_up_s = time.monotonic() - began_s
        caught_up_cpu_s = sum(rig.cpu_s().values()) - sum(before.values())
    rate = few.events / took_s  # a busy machine may have posted fewer than were wanted
    work = Work(known, Need(rate, _ENTITIES, _BYTES, per_post=_PER_POST, replication=1))
    alone = one_machine(work, 2)
    cores = caught_up_cpu_s / caught_up_s
    quick_cores = sum(quick.cpu_s.values()) / quick.seconds
    # the rate, not for how long a server's disk takes it
    framed = Work(known, replace(work.need, per_post=quick.load.per_post, retention_days=0.1))
    return [
        (f"cores busy at {rate:,.0f} events/s", alone["cores_used"], used / took_s),
        ("MiB resident", alone["memory_mib"], memory),
        (
            f"events/s at the most, on {quick_cores:.2f} cores",
            one_machine(framed, quick_cores)["events_per_s_max"],
            _QUICK / quick.seconds,
        ),
        (
            f"s to catch up with {backlog:,} events, on {cores:.2f} cores",
            worked_off_s(work, backlog, 0.0, cores),
            caught_up_s,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
