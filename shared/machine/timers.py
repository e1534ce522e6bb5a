"""Calls that are to come later, and mostly never do. One thread waits for all of them: to start one
for each costs milliseconds where others want the interpreter, too."""

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

_LOST_MAX = 1_000  # that were taken back, and are still in the order


class Timers:
    """Each call has to be short: others wait behind it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._forget_all()
        os.register_at_fork(after_in_child=self._forget_all)

    def _forget_all(self) -> None:
        """A child of this process has none of its threads."""
        self._changed = threading.Condition()
        self._calls: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[float, int]] = []
        self._thread: threading.Thread | None = None

    def call_later(self, after_s: float, call: Callable[[], None]) -> Callable[[], None]:
        """Takes it back."""
        with self._changed:
            number, due_s = next(self._numbers), time.monotonic() + after_s
            self._calls[number] = call
            heapq.heappush(self._due, (due_s, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="timers", daemon=True)
                self._thread.start()
            elif self._due[0][1] == number:  # else it wakes early enough
                self._changed.notify()

        def take_back() -> None:
            with self._changed:
                self._calls.pop(number, None)
                if len(self._due) > len(self._calls) + _LOST_MAX:
                    self._due = [one for one in self._due if one[1] in self._calls]
                    heapq.heapify(self._due)

        return take_back

    def _run(self) -> None:
        while True:
            call = self._next()
            try:
                call()
            except Exception:  # the others are to come all the same
                log.exception("a fault in a call that was due")

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while True:
                while self._due and self._due[0][1] not in self._calls:
                    heapq.heappop(self._due)
                left_s = self._due[0][0] - time.monotonic() if self._due else None
                if left_s is not None and left_s <= 0:
                    return self._calls.pop(heapq.heappop(self._due)[1])
                self._changed.wait(left_s)


_TIMERS = Timers()
call_later = _TIMERS.call_later
