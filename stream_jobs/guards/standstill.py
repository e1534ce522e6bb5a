"""A job that stands still in a batch: a process that hangs says nothing, and Spark waits for it for
ever. The batch has to begin again, and the log to show where all stood."""

import faulthandler
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shared.machine.forking import TELLS_WHERE_IT_IS
from shared.machine.process_tree import tree
from shared.settings import JobSettings
from stream_jobs.guards.lease import last_work_ns

_JAVA = "java"
_WRITES_S = 0.1


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
        faulthandler.dump_traceback()
        ask_where_they_stand(os.getpid())
        return f"it stood still for {self._after_s:.0f} s, its log shows where; it begins again"


def ask_where_they_stand(driver: int) -> None:
    """Each Python process of Spark's that sleeps writes to the log what it is at, then its JVM."""
    jvms = []
    for pid in tree(driver)[1:]:
        with suppress(OSError):  # it has just ended
            said = _status(pid)
            if said["Name"] == _JAVA:
                jvms.append(pid)
            elif said["State"].startswith("S") and _hears(said["SigCgt"], TELLS_WHERE_IT_IS):
                os.kill(pid, TELLS_WHERE_IT_IS)
                time.sleep(_WRITES_S)  # or the next one would write into its lines
    for pid in jvms:
        with suppress(OSError):
            os.kill(pid, signal.SIGQUIT)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _hears(caught: str, number: int) -> bool:
    """Whom it would else end. `caught`: its signals, as the kernel tells them."""
    return bool(int(caught, 16) >> (number - 1) & 1)
