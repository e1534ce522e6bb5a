"""A job's last word on the status topic, which may be any bytes, as of now. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from shared.published import partition_lag
from shared.published.partition_lag import PartitionLag

# they speak every two seconds
SILENT_MAX_MS = 5_000
_STATES = ("closed", "half-open", "open")
_LANE_NUMBERS = ("payloads", "entities", "oldest_s", "deadlines", "woken", "parked", "at_cap")


class SaidBreaker(NamedTuple):
    state: str
    since_ms: int | None
    reason: str


class JobStatus(NamedTuple):
    said: Mapping[str, Any]
    silent_ms: int

    @property
    def state(self) -> str:
        return str(self.said.get("state"))

    @property
    def detail(self) -> str:
        return str(self.said.get("detail") or "")

    @property
    def is_silent(self) -> bool:
        return self.silent_ms > SILENT_MAX_MS

    @property
    def lag_records(self) -> float | None:
        return self.number("lag_records")

    @property
    def lag_s(self) -> float | None:
        """Who says nothing does nothing: what was there then is older now."""
        lag_s = self.number("lag_s")
        return self._older(lag_s) if self.lag_records else lag_s

    @property
    def partitions(self) -> dict[tuple[str, str], PartitionLag]:
        """Where anything is unread, by topic and partition."""
        found = partition_lag.read(self.said.get("partitions"))
        return {at: lag._replace(seconds=self._older(lag.seconds)) for at, lag in found.items()}

    @property
    def breakers(self) -> dict[str, SaidBreaker]:
        said = self.said.get("breakers")
        return {
            name: SaidBreaker(
                one["state"],
                one["since_ms"] if isinstance(one.get("since_ms"), int) else None,
                str(one.get("reason") or ""),
            )
            for name, one in (said.items() if isinstance(said, dict) else ())
            if isinstance(one, dict) and one.get("state") in _STATES
        }

    @property
    def lanes(self) -> dict[str, dict[str, float]]:
        """How those are that it takes work out of."""
        said = self.said.get("lanes")
        return {
            lane: {name: _number(told.get(name)) or 0 for name in _LANE_NUMBERS}
            for lane, told in (said.items() if isinstance(said, dict) else ())
            if isinstance(told, dict)
        }

    @property
    def clocks(self) -> dict[str, float]:
        """How many events were late, or of a clock that is off, since the job began."""
        said = self.said.get("clocks")
        return {
            name: _number(count) or 0
            for name, count in (said.items() if isinstance(said, dict) else ())
        }

    @property
    def of_view(self) -> dict[str, float]:
        """How far the job's view is, and how many events it has left out."""
        said = self.said.get("view")
        its = said.items() if isinstance(said, dict) else ()
        return {str(name): _number(told) or 0 for name, told in its}

    @property
    def stopped_hooks(self) -> dict[str, str]:
        """Webhooks that get nothing, although nobody has paused them, and why."""
        said = self.said.get("hooks")
        stopped = said.get("stopped") if isinstance(said, dict) else None
        return (
            {str(name): str(why) for name, why in stopped.items()}
            if isinstance(stopped, dict)
            else {}
        )

    @property
    def full_lanes(self) -> dict[str, list[str]]:
        """The lanes whose caps bite: who may have no more wait there."""
        said = self.said.get("lanes")
        told = {
            lane: one.get("full")
            for lane, one in (said.items() if isinstance(said, dict) else ())
            if isinstance(one, dict)
        }
        return {lane: [*map(str, who)] for lane, who in told.items() if isinstance(who, list)}

    def _older(self, seconds: float | None) -> float | None:
        if seconds is None or not self.is_silent:
            return seconds
        return round(seconds + self.silent_ms / 1000, 3)

    def number(self, name: str) -> float | None:
        return _number(self.said.get(name))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) else None


def job_status(raw: bytes | None, now_ms: int, silent_ms: int | None = None) -> JobStatus | None:
    """None where the job has said nothing that can be understood. `silent_ms`: since it was heard,
    where that is known; else it is as old as it says itself."""
    try:
        said = orjson.loads(raw or b"")
    except ValueError:
        return None
    return status_of(said, now_ms, silent_ms)


def status_of(said: Any, now_ms: int, silent_ms: int | None = None) -> JobStatus | None:
    """The same of what is parsed."""
    if not isinstance(said, dict) or not isinstance(said.get("at_ms"), int):
        return None
    age_ms = max(0, now_ms - said["at_ms"])
    return JobStatus(said, age_ms if silent_ms is None else silent_ms)
