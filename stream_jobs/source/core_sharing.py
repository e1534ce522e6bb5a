"""Jobs that share few cores take turns at planning and doing their batches.

What is in a batch is settled when it is planned. One that is planned while another job's batch has
the cores waits for those, and what comes meanwhile waits for the batch after it. So a job waits
first, and looks what there is when it is its turn; and one that found nothing looks again when
another job's turn has ended, for that has often left something for it. It is about time alone: a
turn that takes too long is waited for no more, and a process that ends has none.
"""

import fcntl
import os
import struct
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_LOOK_EVERY_S = 0.002
# several little batches on a slow machine
_TURN_S_MAX = 2.0
_TIMES = struct.Struct("dd")
_ENDED_AT = 8


class Turn:
    """One job's, among those that name the same file. In that stands when the last turn began and
    when one has ended, by the clock that all processes of a machine share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._is_mine = False
        self._ended_s = 0.0

    def wait(self) -> None:
        # whoever has waited since the last turn's end looks before the same job has it again
        time.sleep(2 * _LOOK_EVERY_S)
        while not self._is_taken() and time.monotonic() - self._times()[0] < _TURN_S_MAX:
            time.sleep(_LOOK_EVERY_S)

    def end(self) -> None:
        if self._is_mine:
            self._is_mine = False
            self._ended_s = time.monotonic()
            self._tell(self._ended_s, _ENDED_AT)
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def has_left_some(self) -> None:
        """For the others; said by who works beside them, and has no turn."""
        self._tell(time.monotonic(), _ENDED_AT)

    def another_has_ended_since(self, since_s: float) -> bool:
        ended_s = self._times()[1]
        # a file may be older than the machine's start, with which its clock begins anew
        return since_s < ended_s <= time.monotonic() and ended_s != self._ended_s

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._is_mine = True
        self._tell(time.monotonic(), 0)
        return True

    def _tell(self, time_s: float, at: int) -> None:
        with suppress(OSError):  # a full disk is not for this to tell
            os.pwrite(self._file, struct.pack("d", time_s), at)

    def _times(self) -> tuple[float, float]:
        raw = os.pread(self._file, _TIMES.size, 0)
        if len(raw) < _ENDED_AT:
            return time.monotonic(), 0.0  # just about to be written
        began_s, ended_s = _TIMES.unpack(raw.ljust(_TIMES.size, b"\0"))
        return began_s, ended_s


@cache
def turn_of(path: Path) -> Turn:
    """Of a process that works for one job after the other, and for none has a turn."""
    return Turn(path)
