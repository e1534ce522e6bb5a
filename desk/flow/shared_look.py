"""One look at servers for all who ask at the same time, for whom nobody waits long."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
_YOUNG_S = 10.0


class SharedLook(Generic[T]):
    """Who would wait for longer than `within_s` sees what the last one found, while that is young;
    else TimeoutError, and who asks later may see what this one finds."""

    def __init__(self, look: Callable[[], T], within_s: float, kept_s: float) -> None:
        self._look = look
        self._within_s, self._kept_s = within_s, kept_s
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._found: Future[T] | None = None
        self._found_s = 0.0
        self._last: tuple[T, float] | None = None

    def get(self) -> T:
        """What the look raises is kept and raised, too."""
        with self._lock:
            found = self._found
            if found is None or (found.done() and time.monotonic() > self._found_s + self._kept_s):
                found = self._found = self._thread.submit(self._timed)
        try:
            return found.result(self._within_s)
        except TimeoutError:
            last = self._last
            if last is None or time.monotonic() - last[1] > _YOUNG_S or found.done():
                raise
            return last[0]

    def _timed(self) -> T:
        try:
            seen = self._look()
            self._last = seen, time.monotonic()
            return seen
        finally:
            self._found_s = time.monotonic()
