"""A job that stands still in a batch: a process that hangs says nothing, and Spark waits for it for
ever. The batch has to begin again, and the log to show where all stood."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from shared.machine.forking import TELLS_WHERE_IT_IS
from shared.settings import JobSettings
from stream_jobs.guards.lease import last_work_ns

_JAVA = "java"


class Standstill:
    def __init__(
        self, job: str, settings: JobSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job, self._folder, self._clock = job, settings.checkpoints, clock
        # a cluster's workers leave no sign here
        self._after_s = 0.0 if settings.on_cluster else settings.stands_still_after_s
        self._signs: object = None
        self._since_s = clock()

    def why(self, sign: object) -> str:
        """Why its batch has to begin again; the log has then where all stood. `sign`: it changes
        as Spark tells of its query, and where nobody is to work."""
        now_s, signs = self._clock(), (sign, last_work_ns(self._folder, self._job))
        if signs != self._signs:
            self._signs, self._since_s = signs, now_s
        if self._after_s <= 0 or now_s - self._since_s <= self._after_s:
            return ""
        self._since_s = now_s
        ask_where_all_stand(os.getpid())
        return f"it stood still for {self._after_s:.0f} s, its log shows where; it begins again"


def ask_where_all_stand(driver: int) -> None:
    """It, Spark's JVM and the Python processes below it each write to the log what their threads
    are at."""
    for pid in (driver, *_descendants(driver)):
        with suppress(OSError):  # it has just ended
            if (Path("/proc") / str(pid) / "comm").read_text().strip() == _JAVA:
                os.kill(pid, signal.SIGQUIT)
            elif _hears(pid, TELLS_WHERE_IT_IS):
                os.kill(pid, TELLS_WHERE_IT_IS)


def _descendants(of: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    left = [*children.get(of, ())]
    while left:
        yield (pid := left.pop())
        left += children.get(pid, ())


def _hears(pid: int, number: int) -> bool:
    """Whom it would else end."""
    status = (Path("/proc") / str(pid) / "status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
