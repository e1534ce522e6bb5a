"""Whether a store may be asked: closed, open, half-open. Pure: whoever holds it brings the time.

Closed: work goes on. Open: it pauses, and the store is only probed, ever less often. Half-open: the
probe was answered, and the next piece of work shows whether that holds.
"""

from typing import Any, Literal, NamedTuple

_PAUSE_S_MIN = 0.25
_PAUSE_S_MAX = 5.0


class Breaker(NamedTuple):
    state: Literal["closed", "open", "half-open"] = "closed"
    since_ms: int | None = None  # of the first failure; half-open is a part of the same outage
    reason: str = ""
    pause_s: float = 0.0  # before the next probe

    def failed(self, at_ms: int, reason: str) -> "Breaker":
        pause_s = min(max(self.pause_s * 2, _PAUSE_S_MIN), _PAUSE_S_MAX)
        return Breaker("open", self.since_ms or at_ms, reason, pause_s)

    def answered(self) -> "Breaker":
        """A probe was. The pause stays: who answers and cannot work is asked less often."""
        return self if self.state == "closed" else self._replace(state="half-open")

    def answered_in(self, took_s: float, slow_after_s: float, at_ms: int) -> "Breaker":
        """One that takes its time is as good as away."""
        if took_s > slow_after_s:
            return self.failed(at_ms, f"it took {took_s:.1f} s to answer")
        return self.answered() if self.is_open else self.worked()

    def worked(self) -> "Breaker":
        return Breaker()

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    def told(self) -> dict[str, Any]:
        return {"state": self.state, "since_ms": self.since_ms, "reason": self.reason}
