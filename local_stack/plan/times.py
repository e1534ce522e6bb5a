"""How long it takes until all is as if nothing had been: after an outage, or with a copy lost."""

from dataclasses import replace
from math import ceil, inf

from local_stack.plan.caps import caps
from local_stack.plan.need import DAY_S
from local_stack.plan.parts import JOBS
from local_stack.plan.work import Work, highest_rate

_BEHIND = (*JOBS, "relay", "view", "postgres")  # the gateway takes payloads all the time


def catch_up(work: Work) -> tuple[float, str]:
    """After an outage of the jobs; and the part that holds the others up."""
    need = work.need
    backlog = need.events_per_s * need.outage_s
    takes = []
    for part in _BEHIND:
        most = work.rate_of(part, allotted(work, part) * work.assumed.catch_up_busy, behind=True)
        spare = most - need.events_per_s
        takes.append((backlog / spare if spare > 0 else inf, part))
    slowest_s, part = max(takes)
    return slowest_s + max(work.costs.parts[job].start_s for job in JOBS), part


def allotted(work: Work, part: str) -> float:
    """Cores that it may use: those of the plan, but one where it is one process, and of a job no
    more than it has tasks."""
    if part in ("relay", "view"):
        return 1.0
    cores = ceil(work.cores(part, work.need.events_per_s) / work.assumed.busy_max)
    if part == "postgres":
        return max(1, min(cores, work.assumed.server_cores_max))
    if part in JOBS:
        tasks = work.need.partitions or work.assumed.tasks_max
        cores = min(cores, tasks, work.assumed.tasks_max)
    return max(1, cores)


def restores(work: Work) -> dict[str, float]:
    """Seconds, with the cores of the plan."""
    need, parts = work.need, work.costs.parts
    busy = work.assumed.catch_up_busy
    fold_us = parts["fold"].state_us + parts["fold"].event_us  # as if each had changed once
    persist = work.rate_of("persist", allotted(work, "persist") * busy, behind=True)
    kept = need.events_per_s * need.retention_days * DAY_S
    return {
        "a new gateway copies all states": need.entities * parts["view"].state_us / 1e6 / busy,
        "fold without its checkpoint reads all states": need.entities
        * fold_us
        / 1e6
        / (allotted(work, "fold") * busy)
        + parts["fold"].start_s,
        f"persist without its checkpoint reads {need.retention_days:g} days again": kept
        / (persist - need.events_per_s)
        if persist > need.events_per_s
        else inf,
    }


def one_machine(work: Work, cores: float) -> dict[str, float]:
    """Everything on one, each job in a process of its own. What shares so few cores takes all of
    them while it is behind."""
    work = replace(work, need=replace(work.need, replication=1))
    need, parts = work.need, work.costs.parts
    rate = need.events_per_s
    return {
        "cores_used": sum(work.cores(part, rate) for part in parts),
        "events_per_s_max": min(
            highest_rate(lambda rate: _all_behind(work, rate), cores), caps(work)[0].events_per_s
        ),
        "memory_mib": sum(cost.memory_mib for cost in parts.values()),
        "catch_up_s": worked_off_s(work, rate * need.outage_s, rate, cores),
    }


def worked_off_s(work: Work, backlog: float, events_per_s: float, cores: float) -> float:
    """On one machine whose jobs have to start, too, while as many events as ever come."""
    parts = work.costs.parts
    started_s = sum(parts[job].start_s for job in JOBS)
    spare = cores - _all_behind(work, events_per_s)
    waits_s = sum(work.backlog_s(part, backlog) for part in parts if part != "gateway")
    return (started_s + waits_s) / spare if spare > 0 else inf


def _all_behind(work: Work, events_per_s: float) -> float:
    return sum(work.cores(part, events_per_s, behind=True) for part in work.costs.parts)
