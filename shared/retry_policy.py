"""When what failed is tried again, and when it is given up. Pure: the jitter comes from the event's
id, so that a batch that runs again decides as it did before."""

import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

# of those behind a parked one: they go on, or they wait until it is sent again or discarded
WhenParked = Literal["go_on", "wait"]

_YEAR_S = 366 * 86_400


class RetryPolicy(NamedTuple):
    """A row names what differs: RetryPolicy(first_pause_s=30, attempts_max=100)."""

    first_pause_s: float = 1.0
    factor: float = 2.0
    pause_max_s: float = 300.0
    jitter: float = 0.2  # 0.2: up to a fifth is added to each pause
    attempts_max: int = 20
    age_max_s: float = 7 * 86_400.0
    # False: its payloads neither hold up others of their entity nor wait behind them
    in_order: bool = True

    def pause_ms(self, event_id: str, attempts: int) -> int:
        """Before the next attempt, when that many have failed."""
        longest = self.pause_max_s / self.first_pause_s
        # by logarithms: the power of many attempts fits into no float
        is_longest = (attempts - 1) * math.log(self.factor) >= math.log(longest)
        pause_s = self.first_pause_s * (longest if is_longest else self.factor ** (attempts - 1))
        seed = blake2b(f"{event_id}:{attempts}".encode(), digest_size=8).digest()
        part = int.from_bytes(seed) / 2**64
        return int(pause_s * (1 + self.jitter * part) * 1000)

    def is_over(self, attempts: int, age_ms: int) -> bool:
        return attempts >= self.attempts_max or age_ms >= self.age_max_s * 1000

    def why_not(self) -> str | None:
        """What of it cannot be."""
        if not 0 < self.first_pause_s <= self.pause_max_s <= _YEAR_S:
            return "first_pause_s must be above 0, at most pause_max_s, and that at most a year"
        if not 1 <= self.factor < math.inf or not 0 <= self.jitter <= 1:
            return "factor must be at least 1, and jitter from 0 to 1"
        if self.attempts_max < 1 or not 0 < self.age_max_s <= 100 * _YEAR_S:
            return "attempts_max must be at least 1, and age_max_s above 0, at most 100 years"
        return None


class LineRules(NamedTuple):
    """How the payloads of an entity wait."""

    policy: RetryPolicy
    when_parked: WhenParked = "go_on"
    payloads_max: int = 1_000
    of_endpoints: Mapping[str, RetryPolicy] = {}  # by the type of their payloads

    def policy_of(self, payload_type: str) -> RetryPolicy:
        return self.of_endpoints.get(payload_type, self.policy)
