"""Jobs that share few cores take turns at planning and doing their batches.

What is in a batch is settled when it is planned. One that is planned while another job's batch has
the cores waits for those, and what comes meanwhile waits for the batch after it. So a job waits
first, and looks what there is when it is its turn. It is about time alone: a turn that takes too
long is waited for no more, and a process that ends has none.
"""

import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path

_LOOK_EVERY_S = 0.002
# several little batches on a slow machine
_TURN_S_MAX = 2.0
_SECONDS = struct.Struct("d")


class Turn:
    """One job's, among those that name the same file. In that stands when the last turn began, by
    the clock that all processes of a machine share."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def wait(self) -> None:
        # whoever has waited since the last turn's end looks before the same job has it again
        time.sleep(2 * _LOOK_EVERY_S)
        while not self._is_taken() and time.monotonic() - self._began_s() < _TURN_S_MAX:
            time.sleep(_LOOK_EVERY_S)

    def end(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with suppress(OSError):  # a full disk is not for this to tell
            os.pwrite(self._file, _SECONDS.pack(time.monotonic()), 0)
        return True

    def _began_s(self) -> float:
        raw = os.pread(self._file, _SECONDS.size, 0)
        # just about to be written
        return _SECONDS.unpack(raw)[0] if len(raw) == _SECONDS.size else time.monotonic()
