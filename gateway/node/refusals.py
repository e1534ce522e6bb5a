"""What this node has refused within the last minute."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from gateway.node.payload_counts import ACCEPTED, REFUSED, REQUESTS_REFUSED
from gateway.node.shared_counters import Name

WITHIN_S = 60.0
_NOTED_EVERY_S = 2.0
# reasons that are no fault of who posts
OF_KAFKA = frozenset(
    (
        *("kafka_unreachable", "outcome_unknown", "spool_full", "topic_missing", "not_authorized"),
        # what waits for a slow Kafka fills these
        *("too_many_bytes_in_flight", "too_many_requests_in_flight"),
    )
)
OF_ITSELF = frozenset(("internal_fault", "record_formless", "too_many_connections"))


class Refused(NamedTuple):
    by_reason: Counter[str] = Counter()  # noqa: RUF012 - never changed
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
