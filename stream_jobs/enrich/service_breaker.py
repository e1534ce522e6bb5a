"""Whether a service may be asked: closed, open, half-open. Pure: whoever holds it brings the time.

Unlike that of a store (`stream_jobs/guards/breaker.py`), a single failure does not open it: it may
be that of one key alone. Failures in a row do, also those of one key: one that hangs must not hold
up each batch. But only failures of several keys say that the service is away."""

from collections.abc import Sequence
from typing import Literal, NamedTuple


class ServiceBreaker(NamedTuple):
    opens_after: int  # failures in a row
    rests_s: float
    failures: int = 0
    keys: tuple[str, ...] = ()  # that have failed since the last answer, the latest at the end
    rests_until_s: float | None = None

    @property
    def _keys_max(self) -> int:
        return max(2, self.opens_after)

    @property
    def is_away(self) -> bool:
        """So many keys have failed that none of them is why."""
        return len(self.keys) >= self._keys_max

    def failed(self, key: str, now_s: float) -> "ServiceBreaker":
        failures = self.failures + 1
        opens = failures >= self.opens_after
        keys = (*(other for other in self.keys if other != key), key)
        return self._replace(
            failures=failures,
            keys=keys[-self._keys_max :],
            rests_until_s=now_s + self.rests_s if opens else None,
        )

    def answered(self) -> "ServiceBreaker":
        return self._replace(failures=0, keys=(), rests_until_s=None)

    def probe_of(self, keys: Sequence[str]) -> str:
        """Whose request decides: one that has not failed, or did so the longest time ago. Else a
        bad key could stand before good ones again and again."""
        return min(keys, key=lambda key: self.keys.index(key) if key in self.keys else -1)

    def state(self, now_s: float) -> Literal["closed", "open", "half-open"]:
        if self.rests_until_s is None:
            return "closed"
        return "open" if now_s < self.rests_until_s else "half-open"
