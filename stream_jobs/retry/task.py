"""What a worker process of retry is told."""

from functools import cache
from typing import NamedTuple

from shared.flow import load_flow
from shared.kafka_access import KafkaAccess
from shared.lookups import HttpLookup
from shared.retry_policy import LineRules, RetryPolicy, WhenParked


class RetryTask(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    flow: str
    kafka: KafkaAccess
    master_age_max_s: float
    postgres_url: str
    slow_after_s: float
    parked_after_s: float
    when_parked: WhenParked
    master_stale_after_s: float
    waiting_per_entity_max: int
    registry: HttpLookup | None = None

    @property
    def rules(self) -> LineRules:
        return _rules(self)


@cache
def _rules(task: RetryTask) -> LineRules:
    own = {row.payload_type: row.retry for row in load_flow(task.flow).endpoints if row.retry}
    policy = RetryPolicy(age_max_s=task.parked_after_s)
    return LineRules(policy, task.when_parked, task.waiting_per_entity_max, own)
