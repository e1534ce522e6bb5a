"""When what failed is tried again, and when it is given up. Pure: the jitter comes from the event's
id, so that a batch that runs again decides as it did before."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

# of those behind a parked one: they go on, or they wait until it is sent again or discarded
WhenParked = Literal["go_on", "wait"]


class RetryPolicy(NamedTuple):
    first_pause_s: float
    factor: float
    pause_max_s: float
    jitter: float  # 0.2: up to a fifth is added to each pause
    attempts_max: int
    age_max_s: float
    when_parked: WhenParked
    line_max: int = 1_000  # payloads of an entity

    def pause_ms(self, event_id: str, attempts: int) -> int:
        """Before the next attempt, when that many have failed."""
        # beyond a thousand the power would not fit into a float
        pause_s = self.first_pause_s * self.factor ** min(attempts - 1, 1000)
        seed = blake2b(f"{event_id}:{attempts}".encode(), digest_size=8).digest()
        part = int.from_bytes(seed) / 2**64
        return int(min(pause_s, self.pause_max_s) * (1 + self.jitter * part) * 1000)

    def is_over(self, attempts: int, age_ms: int) -> bool:
        return attempts >= self.attempts_max or age_ms >= self.age_max_s * 1000


POLICIES: Mapping[str, RetryPolicy] = {
    "enrich": RetryPolicy(
        first_pause_s=1.0,
        factor=2.0,
        pause_max_s=300.0,
        jitter=0.2,
        attempts_max=20,
        age_max_s=7 * 86_400.0,
        when_parked="go_on",
    ),
}
