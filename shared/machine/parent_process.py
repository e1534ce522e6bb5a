"""A child that does not outlive whoever has started it, however that one ends."""

import ctypes
import os
import signal
from contextlib import suppress

_SET_PARENT_DEATH_SIGNAL = 1


def die_with_parent(parent_pid: int | None = None) -> None:
    """To be called in the child. `parent_pid`: who may have ended before the call."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if parent_pid is not None and os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)
