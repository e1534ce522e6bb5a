"""How far what /state and /views show is behind what was accepted: by this node's spool, all jobs
on the way, and the view.

A lag is an upper bound, as of the jobs' last words. What waits for one job may have waited for the
one before it; and for a time in which nothing was heard of a job, everything may have waited.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.monitor.job_news import JobNews, KnownLag
from gateway.monitor.job_status import JobStatus
from shared.flow_table import Flow
from shared.model import Aggregate, Entity, View

_LOOK_EVERY_S = 0.5
# its work is apart: what waits for master data waits by name, and holds up nobody else
_APART = "retry"
_SPOOL = "the gateway's spool"
_WORKS = JobStatus({"state": "running"}, silent_ms=0)


class JobSeen(NamedTuple):
    name: str
    status: JobStatus | None
    lag: KnownLag | None


class Behind(NamedTuple):
    """But for the view's part, which is another one at each request."""

    lag_s: float | None  # None: of a job nothing is known
    since_s: float  # for so long nothing was heard of one
    why: str  # it is behind, whatever the lag; none: it may not be
    slowest: str

    def with_view(self, view_lag_s: float) -> float | None:
        """In seconds."""
        if self.lag_s is None:
            return None
        # without the view nothing of the jobs is heard either
        return round(self.lag_s + max(self.since_s, view_lag_s), 3)

    def why_stale(self, lag_s: float | None, view_lag_s: float, stale_after_s: float) -> str:
        """Empty where it is not."""
        if view_lag_s > stale_after_s:
            return f"this gateway's copy is {view_lag_s:.0f} s behind"
        if self.why or lag_s is None:
            return self.why
        return self.slowest if lag_s > stale_after_s else ""


class Freshness:
    """How far an answer may be behind what was accepted. By this each of them says whether it is
    stale, and why."""

    __slots__ = ("lag_s", "why_stale")

    def __init__(self, behind: Behind, view_lag_s: float, stale_after_s: float) -> None:
        self.lag_s = behind.with_view(view_lag_s)
        self.why_stale = behind.why_stale(self.lag_s, view_lag_s, stale_after_s)


def behind(jobs: Iterable[JobSeen]) -> Behind:
    lag_s: float | None = 0.0
    since_s = longest_s = 0.0
    why, slowest = "", "each of its jobs is a little behind"
    for job in jobs:
        why = why or _trouble(job)
        if job.lag is None:
            lag_s = None
            continue
        since_s = max(since_s, job.lag.since_s)
        if lag_s is not None:
            lag_s += job.lag.seconds
        if (its_s := job.lag.seconds + job.lag.since_s) > longest_s:
            longest_s, slowest = its_s, f"{job.name} is {its_s:.0f} s behind"
    return Behind(lag_s, since_s, why, slowest)


def _trouble(job: JobSeen) -> str:
    status = job.status
    if status is None:
        return f"{job.name} has given no sign of life yet"
    if status.is_silent:
        return f"{job.name} has given no sign of life for {status.silent_ms // 1000} s"
    if status.state != "running":
        return f"{job.name} is {status.state}: see GET /health"
    return "" if job.lag else f"{job.name} has not said yet how far behind it is"


def jobs_before(flow: Flow, topic: str) -> tuple[str, ...]:
    """Those that an event passes on its way to this topic, the first one first."""
    found: list[str] = []
    wanted = {topic}
    for job in reversed(flow.jobs()):
        if job.name != _APART and not wanted.isdisjoint(job.emits):
            found.insert(0, job.name)
            wanted.update(job.ignited_by)
    return tuple(found)


class Pipeline:
    """Asked at each request, it looks a few times a second."""

    def __init__(self, flow: Flow, news: JobNews, spooled_s: Callable[[], float]) -> None:
        self._news = news
        self._spooled_s = spooled_s
        self._due_s = float("-inf")
        rows = (*flow.with_state, *flow.views)
        self._jobs = {row.topic: jobs_before(flow, row.topic) for row in rows}
        self._folded = {row.topic: behind(()) for row in rows}
        self._fresh = dict(self._folded)

    def of(self, row: Entity | Aggregate | View, *, is_fresh: bool = False) -> Behind:
        """`is_fresh`: the events before fold were folded by the one who asks."""
        if time.monotonic() >= self._due_s:
            self._look()
        return (self._fresh if is_fresh else self._folded)[row.topic]

    def _look(self) -> None:
        self._due_s = time.monotonic() + _LOOK_EVERY_S
        spool = JobSeen(_SPOOL, _WORKS, KnownLag(self._spooled_s(), 0.0))
        statuses = self._news.statuses({job for jobs in self._jobs.values() for job in jobs})
        seen = {job: self._seen(job, status) for job, status in statuses.items()}
        for topic, jobs in self._jobs.items():
            its = [spool, *(seen[job] for job in jobs)]
            self._folded[topic] = behind(its)
            self._fresh[topic] = behind(its[:-1])

    def _seen(self, job: str, status: JobStatus | None) -> JobSeen:
        is_silent = status is None or status.is_silent
        return JobSeen(job, status, self._news.lag(job, is_silent=is_silent))
