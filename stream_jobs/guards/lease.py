"""Until when this copy of a job may work: its driver says so, its worker processes keep to it.

A driver that stands still says nothing, and a process that was frozen finds its lease over before
it has taken up the next piece of work. The clock goes on while a process or a machine sleeps. A
worker may live on when its driver has ended: for the next driver's word it is none of its own.
"""

import math
import os
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from shared.errors import LeaseEndedError
from stream_jobs.guards.claim_watch import watch_of

LEASE_S = 15.0
_VARIABLE = "HEADRACE_LEASES"  # Spark hands the driver's environment on to its workers
_FORMAT = struct.Struct("d32s")
_SAYS_EVERY_S = 1.0  # that it works
_said_at_s: dict[tuple[str, str], float] = {}
_DRIVER = uuid4().hex
RUN = _DRIVER[:12]  # by this the driver is known in its claims


def stand_by(folder: Path, jobs: Iterable[str]) -> None:
    """Before Spark starts: while another driver has these jobs, the workers of this one only warm
    up."""
    _tell_workers(folder)
    for job in jobs:
        _waits(folder, job, _DRIVER).touch()


def stand_by_no_more(folder: Path, jobs: Iterable[str]) -> None:
    """Without having had them."""
    for job in jobs:
        _waits(folder, job, _DRIVER).unlink(missing_ok=True)


class Lease:
    """The driver's side. A job that never held one is free: it only warms up."""

    def __init__(self, folder: Path, job: str) -> None:
        _tell_workers(folder)
        self._path = _path(folder, job)
        self._path.touch()
        self._is_mine = False
        self._write(math.inf)
        _waits(folder, job, _DRIVER).unlink(missing_ok=True)

    def extend(self, asked_s: float) -> None:
        """`asked_s`: when Kafka was asked, not when it had answered."""
        self._is_mine = True
        self._write(asked_s + LEASE_S)

    def end(self) -> None:
        """Before a query is stopped: a worker process outlives its task, for a while."""
        if self._is_mine:
            self._write(0.0)

    def _write(self, until_s: float) -> None:
        # in place and at once: whoever looks meanwhile must not find it empty
        with self._path.open("r+b", buffering=0) as file:
            file.write(_FORMAT.pack(until_s, _DRIVER.encode()))


def check_lease(job: str) -> None:
    """In a worker process, before each piece of work; 15 microseconds. On another machine than the
    driver's there is no such file."""
    driver, _, folder = os.environ.get(_VARIABLE, "").partition(" ")
    if not folder:
        if watch := watch_of(job):
            watch.check(now_s(), LEASE_S)
        return
    try:
        until_s, its_driver = _FORMAT.unpack(_path(Path(folder), job).read_bytes())
    except (FileNotFoundError, struct.error):
        return
    if its_driver.decode() != driver:
        if _waits(Path(folder), job, driver).exists():
            return
        raise LeaseEndedError(f"another process has begun to do the work of {job}")
    if now_s() > until_s:
        raise LeaseEndedError(
            f"Kafka has not confirmed for {LEASE_S:.0f} s that this copy of {job} is the only one"
        )
    _say_that_it_works(folder, job)


def last_work_ns(folder: Path, job: str) -> int:
    """When a worker of this machine took up a piece of work for the last time, by the clock of
    files; 0: none has."""
    try:
        return _sign(folder, job).stat().st_mtime_ns
    except OSError:
        return 0


def _say_that_it_works(folder: str, job: str) -> None:
    if (now := now_s()) - _said_at_s.get((folder, job), -math.inf) >= _SAYS_EVERY_S:
        _said_at_s[folder, job] = now
        with suppress(OSError):  # no work is lost for it
            _sign(Path(folder), job).touch()


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _tell_workers(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_VARIABLE] = f"{_DRIVER} {folder.absolute()}"


def _waits(folder: Path, job: str, driver: str) -> Path:
    return folder / f"{job}.{driver}.standby"


def _sign(folder: Path, job: str) -> Path:
    return folder / f"{job}.works"


def _path(folder: Path, job: str) -> Path:
    return folder / f"{job}.lease"
