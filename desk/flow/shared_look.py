"""One look at servers for all who ask at the same time, for whom nobody waits long."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedLook(Generic[T]):
    """TimeoutError where it takes longer than `within_s`: who asks later may see what it found."""

    def __init__(self, look: Callable[[], T], within_s: float, kept_s: float) -> None:
        self._look = look
        self._within_s, self._kept_s = within_s, kept_s
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._found: Future[T] | None = None
        self._found_s = 0.0

    def get(self) -> T:
        """What the look raises is kept and raised, too."""
        with self._lock:
            found = self._found
            if found is None or (found.done() and time.monotonic() > self._found_s + self._kept_s):
                found = self._found = self._thread.submit(self._timed)
        return found.result(self._within_s)

    def _timed(self) -> T:
        try:
            return self._look()
        finally:
            self._found_s = time.monotonic()
