"""How many cores each part uses at a rate, and the rate at which it has no more of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from local_stack.plan.costs import Costs
from local_stack.plan.need import BATCH_RECORDS_MAX, Assumptions, Need
from local_stack.plan.parts import touched

_ENOUGH = 1e9  # events/s
_ALL_THE_TIME_PER_S = 10.0
# at the highest rate that keeps up: each is as long as the one before, and larger ones of a backlog
# come only with one
_BATCH_AT_MOST_S = 3.0


@dataclass(frozen=True)
class Work:
    costs: Costs
    need: Need
    assumed: Assumptions = field(default_factory=Assumptions)

    def states_per_s(self, events_per_s: float, *, behind: bool = False) -> float:
        """`behind`: batches follow one another, each with what came during the one before."""
        batches = self._batches_per_s("fold", events_per_s, behind=behind)
        return batches * touched(events_per_s / batches, self.need.entities) if batches else 0.0

    def cores(self, part: str, events_per_s: float, *, behind: bool = False) -> float:
        """The cores of a part; the view's in each gateway."""
        cost = self.costs.parts[part]
        busy = 0.0 if behind else cost.busy_cores
        used_us = (
            cost.event_us * events_per_s
            + cost.state_us * self.states_per_s(events_per_s, behind=behind)
            + cost.kib_us * events_per_s * self.need.body_bytes / 1024
            + cost.post_us * events_per_s / self.need.per_post
            + cost.batch_ms * 1e3 * self._batches_per_s(part, events_per_s, behind=behind)
        )
        if part == "kafka":
            used_us *= self._replicas
        often = min(1.0, events_per_s / _ALL_THE_TIME_PER_S)
        return cost.rest_cores + busy * often + used_us / 1e6

    def backlog_s(self, part: str, events: float) -> float:
        """CPU seconds for what waits, in batches as large as may be."""
        batch = min(events, BATCH_RECORDS_MAX)
        if not batch:
            return 0.0
        cost = self.costs.parts[part]
        each_us = (
            cost.event_us
            + cost.kib_us * self.need.body_bytes / 1024
            + cost.state_us * touched(batch, self.need.entities) / batch
        )
        if part == "kafka":
            each_us *= self._replicas
        return (each_us * events + cost.batch_ms * 1e3 * events / batch) / 1e6

    def rate_of(self, part: str, cores: float, *, behind: bool = False) -> float:
        """Events/s at which it uses all of so many cores."""
        return highest_rate(lambda rate: self.cores(part, rate, behind=behind), cores)

    @property
    def _replicas(self) -> float:
        return 1 + self.assumed.replica_cpu * (self.need.replication - 1)

    def _batches_per_s(self, part: str, events_per_s: float, *, behind: bool) -> float:
        usual = min(self.costs.parts[part].batches_per_s, events_per_s)
        if behind:
            usual = min(usual, 1 / _BATCH_AT_MOST_S)
        return max(usual, events_per_s / BATCH_RECORDS_MAX)


def highest_rate(cores_at: Callable[[float], float], cores: float) -> float:
    """Where more events never cost less; infinite where they cost nothing."""
    if cores_at(_ENOUGH) <= cores:
        return inf
    low, high = 0.0, _ENOUGH
    for _ in range(80):
        middle = (low + high) / 2
        if cores_at(middle) <= cores:
            low = middle
        else:
            high = middle
    return low
