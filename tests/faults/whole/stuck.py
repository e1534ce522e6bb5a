"""Why not all has come through: what a run that has failed can tell nobody later."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, takewhile

import psycopg

from clients.postgres.grants import JOBS
from local_stack.machine.log_files import log_path
from stream_jobs.guards.standstill import ask_where_they_stand
from tests.faults.whole.rig import Rig

_SESSIONS = """
    SELECT application_name, state, wait_event_type, wait_event,
           extract(epoch FROM now() - state_change)::int, left(query, 70)
    FROM pg_stat_activity WHERE application_name LIKE 'headrace-persist%'
"""
_THREAD = re.compile(r'^"((?:stream execution thread for|Executor task launch).*?)".*')
_CURRENT = re.compile(r"^Current thread .*")
_FRAMES_MAX = 8
_DUMP_TAKES_S = 3.0


async def why_not_through(rig: Rig) -> list[str]:
    """Of the jobs, by their own word; of persist's sessions; of what Spark's threads are at."""
    checks = await asyncio.to_thread(rig.health)
    jobs = [f"{name}: {its}" for name, its in checks.items() if name.startswith("job:")]
    return [*await _threads(rig), *await asyncio.to_thread(_sessions, rig), *_said(rig), *jobs]


def _sessions(rig: Rig) -> list[str]:
    with suppress(psycopg.Error):  # a role sees of its own alone what they do
        return [f"session: {row}" for row in rig.rows(_SESSIONS, role=JOBS)]
    return ["PostgreSQL does not answer"]


def _said(rig: Rig) -> list[str]:
    """The last words of the jobs' process, without Spark's traces."""
    lines = log_path(rig.state_dir, "spark").read_text(errors="replace").splitlines()
    return [line[:200] for line in lines if " stream_jobs." in line][-8:]


async def _threads(rig: Rig) -> list[str]:
    """Where each query and each task of Spark's is, and its Python processes: they write that to
    the log."""
    if (driver := rig.launcher.service_pid("spark")) is None:
        return ["Spark does not run"]
    log = log_path(rig.state_dir, "spark")
    before = log.stat().st_size
    ask_where_they_stand(driver)
    await asyncio.sleep(_DUMP_TAKES_S)
    return [*_at(log.read_bytes()[before:].decode(errors="replace").splitlines())]


def _at(dump: list[str]) -> Iterator[str]:
    for number, line in enumerate(dump):
        if found := _THREAD.match(line):
            frames = (one.strip() for one in dump[number + 1 :] if one.startswith("\tat "))
            yield f"{found[1]}: {' '.join(islice(frames, _FRAMES_MAX))}"
        elif _CURRENT.match(line):  # of a Python process: where it waits, innermost first
            its = takewhile(lambda one: one.startswith("  File "), dump[number + 1 :])
            yield f"Python: {' '.join(one.strip() for one in islice(its, _FRAMES_MAX))}"
