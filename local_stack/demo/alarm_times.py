"""When each alarm reached its readers: the webhook, and the event stream.

Times count from when Kafka had the payload that raised the alarm, which the event says. That clock
and the demo's are one where both run on one machine.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class ReachedAlarm(NamedTuple):
    """Its readers have it, so many milliseconds after its payload was in Kafka."""

    device: str
    value: float | None
    webhook_ms: int
    stream_ms: int


class _Shown(NamedTuple):
    """What the event stream has shown."""

    event: Mapping[str, Any]
    at_ms: int


class AlarmTimes:
    """The webhook's and the event stream's threads both tell it. Whoever is the second to tell of
    an alarm gets it; what comes once more is no news."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[str, _Shown] = {}
        self._delivered_ms: dict[str, int] = {}
        self.reached: list[ReachedAlarm] = []

    def on_stream(self, event: Mapping[str, Any], at_ms: int) -> ReachedAlarm | None:
        alarm_id = event["id"]
        with self._lock:
            if alarm_id in self._shown:
                return None
            self._shown[alarm_id] = _Shown(event, at_ms)
            return self._both(alarm_id)

    def on_webhook(self, alarm_id: str, at_ms: int) -> ReachedAlarm | None:
        with self._lock:
            if alarm_id in self._delivered_ms:
                return None
            self._delivered_ms[alarm_id] = at_ms
            return self._both(alarm_id)

    def was_delivered(self, event_id: str) -> bool:
        return event_id in self._delivered_ms

    @property
    def undelivered(self) -> int:
        """Those that the stream has shown and the webhook has not got. What the webhook alone has
        came before the stream was open."""
        return len(self._shown) - len(self.reached)

    @property
    def all_reached(self) -> bool:
        return bool(self.reached) and not self.undelivered

    def as_document(self) -> dict[str, Any]:
        return {
            "reached": len(self.reached),
            "undelivered": self.undelivered,
            "webhook_ms": spread([alarm.webhook_ms for alarm in self.reached]),
            "event_stream_ms": spread([alarm.stream_ms for alarm in self.reached]),
        }

    def _both(self, alarm_id: str) -> ReachedAlarm | None:
        shown, delivered_ms = self._shown.get(alarm_id), self._delivered_ms.get(alarm_id)
        if shown is None or delivered_ms is None:
            return None
        event, at_ms = shown
        began_ms = event["arrived_ms"]
        alarm = ReachedAlarm(
            event["entity_id"], event["data"]["value"], delivered_ms - began_ms, at_ms - began_ms
        )
        self.reached.append(alarm)
        return alarm


def spread(times_ms: Sequence[int]) -> dict[str, int]:
    if not times_ms:
        return {}
    ordered = sorted(times_ms)
    p50, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return {"p50": p50, "p99": p99, "max": ordered[-1]}
