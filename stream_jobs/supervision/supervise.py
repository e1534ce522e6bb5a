"""Looks after the queries of one Spark session, each by itself."""

import logging
import threading
import time

from stream_jobs.supervision.job_run import JobRun

_log = logging.getLogger(__name__)
_TICK_S = 0.25


def supervise(runs: list[JobRun], stop: threading.Event, stop_deadline_s: float = 8.0) -> None:
    """Until `stop` is set, or every job is another copy's; then every query is stopped, within the
    deadline."""
    threads = [threading.Thread(target=_watch, args=(run, stop), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    while not stop.wait(_TICK_S):
        if all(run.other_copy for run in runs):
            stop.set()
    deadline = time.monotonic() + stop_deadline_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _watch(run: JobRun, stop: threading.Event) -> None:
    # one thread a job: a broker that is slow to answer one must not keep the others from restarting
    while not stop.is_set():
        try:
            run.tick()
        except Exception:
            _log.exception("%s could not be looked after, trying again", run.job)
        stop.wait(_TICK_S)
    run.stop()
