"""What the jobs last said, and how long ago: by the clock that heard it, for a job's own may be
another. Clocks that differ must make no job silent."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import orjson

from gateway.monitor.job_status import JobStatus, job_status
from gateway.state_view.reader import StateView
from shared.topic_names import JOB_STATUS_TOPIC

_LOOK_EVERY_S = 0.25
# whoever looks as often knows when a word came
_HEARD_AT_ONCE_S = 5.0


class KnownLag(NamedTuple):
    """It may have grown by as much as time has passed since."""

    seconds: float
    since_s: float  # 0: it is of now


class _Heard(NamedTuple):
    raw: bytes
    at_s: float
    lag: tuple[float, float] | None  # the last that it knew, and when that was


class JobNews:
    def __init__(self, view: StateView, now_s: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._now_s = now_s
        self._looked_s = float("-inf")
        self._heard: dict[bytes, _Heard] = {}

    def words(self) -> Mapping[bytes, bytes]:
        self.look()
        return {job: heard.raw for job, heard in self._heard.items()}

    def silent_ms(self) -> Mapping[bytes, int]:
        self.look()
        now_s = self._now_s()
        return {job: int((now_s - heard.at_s) * 1000) for job, heard in self._heard.items()}

    def statuses(self, jobs: Iterable[str]) -> dict[str, JobStatus | None]:
        silent_ms = self.silent_ms()
        return {job: self._status(job.encode(), silent_ms) for job in jobs}

    def lag(self, job: str, *, is_silent: bool) -> KnownLag | None:
        """None: it has never said."""
        heard = self._heard.get(job.encode())
        if heard is None or heard.lag is None:
            return None
        seconds, at_s = heard.lag
        is_of_now = at_s == heard.at_s and not is_silent
        return KnownLag(seconds, 0.0 if is_of_now else self._now_s() - at_s)

    def look(self) -> None:
        now_s = self._now_s()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        for job, raw in self._view.values(JOB_STATUS_TOPIC).items():
            before = self._heard.get(job)
            if before is None or before.raw != raw:
                self._heard[job] = self._hear(raw, before, now_s)
        self._looked_s = now_s

    def _hear(self, raw: bytes, before: _Heard | None, now_s: float) -> _Heard:
        unseen_s = now_s - self._looked_s
        at_s = now_s - (0.0 if unseen_s <= _HEARD_AT_ONCE_S else min(_age_s(raw), unseen_s))
        status = job_status(raw, 0)
        lag_s = None if status is None else status.number("lag_s")
        known = None if before is None else before.lag
        return _Heard(raw, at_s, known if lag_s is None else (max(lag_s, 0.0), at_s))

    def _status(self, job: bytes, silent_ms: Mapping[bytes, int]) -> JobStatus | None:
        heard = self._heard.get(job)
        return None if heard is None else job_status(heard.raw, 0, silent_ms[job])


def _age_s(raw: bytes) -> float:
    """As it says itself, which is all there is to go by where nobody has listened."""
    try:
        return max(0.0, time.time() - float(orjson.loads(raw)["at_ms"]) / 1000)
    except (ValueError, KeyError, TypeError):
        return 0.0
