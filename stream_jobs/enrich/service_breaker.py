"""Whether a service may be asked: closed, open, half-open. Pure: whoever holds it brings the time.

Unlike that of a store (`stream_jobs/guards/breaker.py`), a single failure does not open it: it may
be that of one key alone."""

from typing import Literal, NamedTuple


class ServiceBreaker(NamedTuple):
    opens_after: int  # failures in a row
    rests_s: float
    failures: int = 0
    rests_until_s: float | None = None

    def failed(self, now_s: float) -> "ServiceBreaker":
        failures = self.failures + 1
        opens = failures >= self.opens_after
        return self._replace(
            failures=failures, rests_until_s=now_s + self.rests_s if opens else None
        )

    def answered(self) -> "ServiceBreaker":
        return self._replace(failures=0, rests_until_s=None)

    def state(self, now_s: float) -> Literal["closed", "open", "half-open"]:
        if self.rests_until_s is None:
            return "closed"
        return "open" if now_s < self.rests_until_s else "half-open"
