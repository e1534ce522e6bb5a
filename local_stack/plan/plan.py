"""The plan: what each part needs, the machines, the times, and what gives way first."""

from math import ceil, inf
from typing import Any

from local_stack.plan.caps import Cap, caps
from local_stack.plan.need import DAY_S, GIB, INGEST_KEPT_DAYS
from local_stack.plan.parts import JOBS, PARTS
from local_stack.plan.pools import pools
from local_stack.plan.storage import bytes_per_event, disk_bytes
from local_stack.plan.times import allotted, catch_up, one_machine, restores
from local_stack.plan.work import Work

_PARTITIONS_MIN = 4
_ROUND_TO = 4


def partitions_needed(work: Work) -> int:
    """A task has a partition and a core: as many as the job with most work has cores to keep busy,
    at the rate after an outage, too."""
    if work.need.partitions is not None:
        return work.need.partitions
    most = max(allotted(work, job) for job in JOBS)
    return max(_PARTITIONS_MIN, ceil(most / _ROUND_TO) * _ROUND_TO)


def plan(work: Work, machine_cores: float | None = None) -> dict[str, Any]:
    """A document of numbers and sentences; None where something never ends."""
    need, partitions = work.need, partitions_needed(work)
    known = caps(work)
    machines = pools(work, partitions)
    caught_up_s, slowest = catch_up(work)
    document: dict[str, Any] = {
        "costs": work.costs.said,
        "parts": _parts(work, known),
        "machines": [
            {
                "runs": pool.runs,
                "nodes": pool.nodes,
                "cores_each": pool.cores,
                "memory_gib_each": _rounded(pool.memory_gib),
                "disk_gib_each": _rounded(pool.disk_gib),
            }
            for pool in machines
        ],
        "totals": {
            "partitions": partitions,
            "state_partitions": partitions,
            "nodes": sum(pool.nodes for pool in machines),
            "cores": sum(pool.nodes * pool.cores for pool in machines),
            "memory_gib": _rounded(sum(pool.nodes * pool.memory_gib for pool in machines)),
            "disk_gib": _rounded(sum(pool.nodes * pool.disk_gib for pool in machines)),
        },
        "times_s": {
            f"catch up after {need.outage_s / 3600:g} h (held up by {slowest})": _finite(
                caught_up_s
            ),
            **{what: _finite(seconds) for what, seconds in restores(work).items()},
        },
        "gives_way_first": gives_way(known, need.events_per_s),
        "notes": _notes(work),
        "assumptions": work.assumed.told(),
    }
    if machine_cores is not None:
        alone = one_machine(work, machine_cores)
        document["one_machine"] = {name: _finite(value) for name, value in alone.items()}
    return document


def gives_way(known: list[Cap], events_per_s: float) -> dict[str, Any]:
    first = known[0]
    return {
        "part": first.part,
        "holds": events_per_s <= first.events_per_s,
        "events_per_s": _whole(first.events_per_s),
        "why": first.why,
        "do": first.remedy,
        "installations": _installations(first, events_per_s),
    }


def _installations(first: Cap, events_per_s: float) -> int | None:
    """That hold it between them; None where the entities alone are too many."""
    if first.events_per_s == inf:
        return 1
    return ceil(events_per_s / first.events_per_s) if first.events_per_s else None


def _parts(work: Work, known: list[Cap]) -> list[dict[str, Any]]:
    disk, rate = disk_bytes(work), work.need.events_per_s
    rows = []
    for part in PARTS:
        cap = next((cap for cap in known if cap.part == part), None)
        rows.append(
            {
                "part": part,
                "cores": round(work.cores(part, rate), 2),
                "memory_mib_each": work.costs.parts[part].memory_mib,
                "disk_gib": _rounded(disk[part] / GIB) if part in disk else None,
                "holds_events_per_s": _whole(cap.events_per_s) if cap else None,
                "limit": cap.why if cap else "grows with nodes",
            }
        )
    return rows


def _notes(work: Work) -> list[str]:
    a_day = bytes_per_event(work)["postgres"] * work.need.events_per_s * DAY_S
    one = min(work.rate_of(job, work.assumed.busy_max) for job in JOBS)
    notes = [
        f"one entity, which has one partition, may send at most {one:,.0f} events/s",
        f"events, completions and rows are kept for ever: past {work.need.retention_days:g} days "
        f"they grow on, rows by {a_day / GIB:,.1f} GiB a day",
    ]
    if work.need.retention_days > INGEST_KEPT_DAYS:
        notes.append(f"payloads on ingest topics are kept {INGEST_KEPT_DAYS:g} days of these")
    return notes


def _finite(value: float) -> float | None:
    return round(value, 1) if value < float("inf") else None


def _whole(value: float) -> int | None:
    return int(value) if value < float("inf") else None


def _rounded(value: float) -> float:
    return round(value, 1) if value < 100 else round(value)
