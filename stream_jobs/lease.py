"""Until when this copy of a job may work: its driver says so, its worker processes keep to it.

A driver that stands still says nothing, and a process that was frozen finds its lease over before
it has taken up the next piece of work. The clock goes on while a process or a machine sleeps.
"""

import os
import struct
import time
from pathlib import Path

LEASE_S = 15.0
_VARIABLE = "HEADRACE_LEASES"  # Spark hands the driver's environment on to its workers
_FORMAT = struct.Struct("d")


class LeaseEndedError(Exception):
    """Kafka has not confirmed lately that this copy of the job is the one."""


class Lease:
    """The driver's side. A job that never held one is free: it only warms up."""

    def __init__(self, folder: Path, job: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[_VARIABLE] = str(folder.absolute())
        self._path = _path(folder, job)
        self._path.unlink(missing_ok=True)  # of a copy that is gone

    def extend(self, asked_s: float) -> None:
        """`asked_s`: when Kafka was asked, not when it had answered."""
        if not self._path.exists():
            self._path.touch()
        with self._path.open("r+b", buffering=0) as file:
            file.write(_FORMAT.pack(asked_s + LEASE_S))

    def end(self) -> None:
        """Before a query is stopped: a worker process outlives its task, for a while."""
        if self._path.exists():
            self._path.write_bytes(_FORMAT.pack(0.0))


def check_lease(job: str) -> None:
    """In a worker process, before each piece of work; 15 microseconds."""
    folder = os.environ.get(_VARIABLE)
    if folder is None:
        return
    try:
        (until_s,) = _FORMAT.unpack(_path(Path(folder), job).read_bytes())
    except (FileNotFoundError, struct.error):
        return
    if now_s() > until_s:
        raise LeaseEndedError(
            f"Kafka has not confirmed for {LEASE_S:.0f} s that this copy of {job} is the only one"
        )


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _path(folder: Path, job: str) -> Path:
    return folder / f"{job}.lease"
