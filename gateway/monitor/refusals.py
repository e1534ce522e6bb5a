"""What this node has refused within the last minute, and whether that is its own trouble."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from gateway.monitor.causes import BECAUSE, KAFKA
from gateway.node.payload_counts import ACCEPTED, REFUSED, REQUESTS_REFUSED
from gateway.node.shared_counters import Name

WITHIN_S = 60.0
_NOTED_EVERY_S = 2.0
# the others are of who posts: what was sent was wrong, too much, or by nobody who may
_OF_KAFKA = {
    *("kafka_unreachable", "outcome_unknown", "spool_full", "topic_missing", "not_authorized"),
}
_OF_ITSELF = {
    *("internal_fault", "record_formless", "too_many_bytes_in_flight", "too_many_connections"),
    "too_many_requests_in_flight",
}


class Refused(NamedTuple):
    by_reason: Mapping[str, int] = {}
    accepted: int = 0


class RecentRefusals:
    def __init__(self) -> None:
        self._noted: deque[tuple[float, Counter[str], int]] = deque()

    def note(self, now_s: float, numbers: Mapping[Name, float]) -> None:
        """As they are counted now, since the node began."""
        if self._noted and now_s - self._noted[-1][0] < _NOTED_EVERY_S:
            return
        while len(self._noted) > 1 and now_s - self._noted[1][0] > WITHIN_S:
            self._noted.popleft()
        self._noted.append((now_s, _refused(numbers), _accepted(numbers)))

    def recent(self, numbers: Mapping[Name, float]) -> Refused:
        if not self._noted:
            return Refused()
        _, refused, accepted = self._noted[0]
        return Refused(_refused(numbers) - refused, _accepted(numbers) - accepted)


def _refused(numbers: Mapping[Name, float]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (what, *labels), count in numbers.items():
        if what in (REFUSED, REQUESTS_REFUSED):
            found[labels[-1]] += int(count)
    return found


def _accepted(numbers: Mapping[Name, float]) -> int:
    return int(sum(count for (what, *_), count in numbers.items() if what == ACCEPTED))


def check(refused: Refused) -> dict[str, Any]:
    its = sorted(refused.by_reason.items(), key=lambda one: -one[1])
    own = [reason for reason, _ in its if reason in _OF_KAFKA | _OF_ITSELF]
    said = ", ".join(f"{count} {reason}" for reason, count in its)
    accepted = f"{refused.accepted} were accepted in the same {WITHIN_S:.0f} s"
    return {
        "status": "warn" if own else "pass",
        "observedValue": sum(refused.by_reason.values()),
        "observedUnit": "payloads",
        **({"output": f"{said}; {accepted}"} if said else {}),
        BECAUSE: () if _OF_ITSELF.intersection(own) else (KAFKA,),
    }
