"""What more nodes do not help: the rate at which each part gives way, why, and what to do then."""

from math import inf
from typing import NamedTuple

from local_stack.plan.need import DAY_S
from local_stack.plan.storage import bytes_per_event, bytes_per_state
from local_stack.plan.work import Work


class Cap(NamedTuple):
    part: str
    events_per_s: float  # that it holds; 0 where it does not even hold the entities
    why: str
    remedy: str


_DIVIDE = "divide the devices over several installations, by tenant or region"
_ROWS = (
    "a larger disk (rows are the permanent log, and the ledger misses those that are removed), or "
) + _DIVIDE


def caps(work: Work) -> list[Cap]:
    """The lowest first."""
    found = [*_single_processes(work), *_postgres(work), *_jobs(work), _view_copy(work)]
    return sorted(found, key=lambda cap: cap.events_per_s)


def _single_processes(work: Work) -> list[Cap]:
    busy = work.assumed.busy_max
    return [
        Cap("relay", work.rate_of("relay", busy), "one process works, the others wait", _DIVIDE),
        Cap(
            "view",
            work.rate_of("view", busy),
            "in each gateway one process copies all states, however many gateways there are",
            "longer batches of fold (HEADRACE_TRIGGER_MS), which write a state once for more "
            "events; or " + _DIVIDE + ", so that each view has a share of the states",
        ),
    ]


def _postgres(work: Work) -> list[Cap]:
    assumed, need = work.assumed, work.need
    cores = assumed.server_cores_max * assumed.busy_max
    room = assumed.server_tib_max * 1024**4 * (1 - assumed.disk_free)
    room -= bytes_per_state(work)["postgres"] * need.entities
    each = bytes_per_event(work)["postgres"] * need.retention_days * DAY_S
    return [
        Cap("postgres", work.rate_of("postgres", cores), "it is one server", _DIVIDE),
        Cap(
            "postgres",
            max(0.0, room) / each if each else inf,
            f"rows of {need.retention_days:g} days fill one server's disk",
            _ROWS,
        ),
    ]


def _jobs(work: Work) -> list[Cap]:
    assumed, partitions = work.assumed, work.need.partitions
    tasks = assumed.tasks_max if partitions is None else min(partitions, assumed.tasks_max)
    if tasks < assumed.tasks_max:
        why = f"{tasks} partitions are as many tasks, of a core each"
        remedy = (
            "more partitions, before the first record: --partitions (what a topic in use has to be "
            "given first: docs/operations.md, TOPIC_WIDENED); of fold HEADRACE_STATE_PARTITIONS"
        )
    else:
        why = f"the driver plans one task after the other: {tasks} in a batch"
        remedy = "endpoints of their own with topics of their own, or " + _DIVIDE
    return [
        Cap(job, work.rate_of(job, tasks * assumed.busy_max), why, remedy)
        for job in ("enrich", "fold", "persist")
    ]


def _view_copy(work: Work) -> Cap:
    """A new gateway answers for its states when it has copied all of them."""
    state_us = work.costs.parts["view"].state_us
    within_s = work.assumed.view_copied_within_s
    takes_s = work.need.entities * state_us / 1e6
    return Cap(
        "view",
        inf if takes_s <= within_s else 0.0,
        f"a new gateway copies {work.need.entities:,} states in {takes_s / 3600:.1f} h",
        "start a new gateway with a copy of another one's view folder, or " + _DIVIDE,
    )
