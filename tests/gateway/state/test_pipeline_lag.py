import json
import time
from types import SimpleNamespace

import pytest

from gateway.monitor.job_news import JobNews, KnownLag
from gateway.monitor.job_status import JobStatus
from gateway.state.pipeline_lag import JobSeen, Pipeline, behind, jobs_before
from shared.flow import FLOW

RUNS = JobStatus({"state": "running"}, silent_ms=500)
SILENT = JobStatus({"state": "running"}, silent_ms=60_000)


def seen(
    name: str, lag_s: float | None = 0.0, since_s: float = 0.0, status: JobStatus | None = RUNS
) -> JobSeen:
    return JobSeen(name, status, None if lag_s is None else KnownLag(lag_s, since_s))


def stale(*jobs: JobSeen, view_s: float = 0.2) -> tuple[float | None, str]:
    found = behind(jobs)
    lag_s = found.with_view(view_s)
    return lag_s, found.why_stale(lag_s, view_s, 10.0)


def test_the_pipeline_of_a_state_is_whatever_an_event_passes_on_its_way() -> None:
    assert jobs_before(FLOW, "state.device.v1") == ("enrich", "fold")
    assert jobs_before(FLOW, "state.area.v1") == ("enrich", "fold", "aggregate")


def test_what_waits_for_one_job_may_have_waited_for_the_one_before() -> None:
    assert stale(seen("enrich", 3.0), seen("fold", 1.5)) == (4.7, "")
    assert stale(seen("enrich", 3.0), seen("fold", 12.0)) == (15.2, "fold is 12 s behind")
    assert stale(seen("enrich", 7.0), seen("fold", 5.0)) == (12.2, "enrich is 7 s behind")


def test_idle_is_not_behind() -> None:
    assert stale(seen("enrich"), seen("fold"), view_s=0.0) == (0.0, "")


def test_time_in_which_nothing_is_heard_counts_once_for_all_jobs_that_are_silent() -> None:
    lag_s, why = stale(
        seen("enrich", 0.5, 3600.0, SILENT), seen("fold", 0.25, 3599.0, SILENT), view_s=0.1
    )
    assert (lag_s, why) == (3600.75, "enrich has given no sign of life for 60 s")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("failed", "fold is failed: see GET /health"),
        ("waiting", "fold is waiting: see GET /health"),
        ("stopped", "fold is stopped: see GET /health"),
    ],
)
def test_a_job_that_does_not_run_makes_it_stale_however_small_its_lag(state: str, why: str) -> None:
    status = JobStatus({"state": state, "detail": "of no interest here"}, silent_ms=500)
    assert stale(seen("enrich"), seen("fold", 0.5, 0.0, status)) == (0.7, why)


def test_of_a_job_that_was_never_seen_nobody_knows_how_far_it_is_behind() -> None:
    never = seen("fold", None, status=None)
    assert stale(seen("enrich", 2.0), never) == (None, "fold has given no sign of life yet")
    mute = seen("fold", None)
    assert stale(mute) == (None, "fold has not said yet how far behind it is")


def test_a_view_that_is_behind_hears_nothing_of_the_jobs() -> None:
    lag_s, why = stale(seen("enrich"), seen("fold", 1.0, 55.0, SILENT), view_s=60.0)
    assert (lag_s, why) == (61.0, "this gateway's copy is 60 s behind")


def test_what_lies_in_the_spool_is_accepted_and_in_no_state() -> None:
    said = {"state": "running", "lag_s": 0.5, "at_ms": time.time_ns() // 1_000_000}
    words = {job: json.dumps(said).encode() for job in (b"enrich", b"fold")}
    news = JobNews(SimpleNamespace(values=lambda _: words))
    device = FLOW.entities[0]
    found = Pipeline(FLOW, news, lambda: 30.0).of(device)
    lag_s = found.with_view(0.0)
    assert lag_s == 31.0
    assert found.why_stale(lag_s, 0.0, 10.0) == "the gateway's spool is 30 s behind"
    fresh = Pipeline(FLOW, news, lambda: 0.0).of(device, is_fresh=True)
    assert fresh.with_view(0.0) == 0.5  # enrich alone
