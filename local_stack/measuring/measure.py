"""Short loads on a stack of its own, from which the costs of each part follow."""

import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from local_stack.measuring import fit
from local_stack.measuring.rig import Rig
from local_stack.measuring.samples import Load, Sample
from local_stack.plan.costs import Costs
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

_WARM = Load("warm", events=30_000, entities=3_000, body_bytes=200)
# each differs from the others in one thing: how many entities, how long, how many batches and POSTs
LOADS = (
    Load("few", events=40_000, entities=200, body_bytes=100),
    Load("many", events=30_000, entities=30_000, body_bytes=100),
    Load("long", events=20_000, entities=200, body_bytes=1_500),
    Load("single", events=5_000, entities=200, body_bytes=100, per_post=1, clients=16),
    Load("slow", events=2_000, entities=200, body_bytes=100, per_post=1, per_s=200.0),
)
_STAYS_S = 12.0  # a little longer than enrich asks on after a load (HEADRACE_STAYS_S)
_RESTS_S = 5.0
# with which the load would go elsewhere than to a stack of its own, or be refused there
_NOT_HERE = re.compile(r"HEADRACE_(KAFKA_|POSTGRES_|CHECKPOINT_|SPARK_MASTER|AUTH$|TLS_|STANDBY)")


def measured(loads: tuple[Load, ...] = LOADS, scale: float = 1.0) -> Costs:
    """`scale`: a part of the events, for a look at whether it works at all."""
    refuse_settings(os.environ)
    with tempfile.TemporaryDirectory(prefix="headrace-plan-") as folder, Rig(Path(folder)) as rig:
        start_s = rig.cpu_s()
        first = _run(rig, _scaled(_WARM, scale))
        time.sleep(_STAYS_S * scale)
        rest = rig.rest(_RESTS_S * scale)
        samples = [_run(rig, _scaled(load, scale)) for load in loads]
        entities = sum(_scaled(load, scale).entities for load in (_WARM, *loads))
        return Costs(
            machine=_machine(),
            parts=fit.part_costs(samples, rest, start_s, first),
            sizes=fit.sizes(samples, rig.stored_bytes(), entities),
        )


def refuse_settings(environment: Mapping[str, str]) -> None:
    """A load has no business on servers of the user's."""
    if names := sorted(name for name in environment if _NOT_HERE.match(name)):
        raise StackError(
            f"{', '.join(names)} is set, and what is measured is a stack of its own",
            "unset it for this: env -u " + " -u ".join(names) + " ./headrace plan --measure",
        )


def _run(rig: Rig, load: Load) -> Sample:
    before = rig.stored_bytes()
    sample = rig.run(load)
    after = rig.stored_bytes()
    cpu_us = sum(sample.cpu_s.values()) / load.events * 1e6
    say(f"  {load.name}: {load.events:,} events, {sample.seconds:.0f} s, {cpu_us:,.0f} CPU us each")
    return replace(sample, disk_bytes={name: after[name] - before[name] for name in after})


def _scaled(load: Load, scale: float) -> Load:
    events, entities = (max(1, round(of * scale)) for of in (load.events, load.entities))
    return replace(load, events=events, entities=min(entities, events))


def _machine() -> str:
    day = datetime.now(UTC).date().isoformat()
    return f"{os.cpu_count()} cores, {day}"
