"""What is costly to make, kept for whoever asks next."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from shared.machine.timers import call_later


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class Kept(Generic[T]):
    """Made where none is free. Closed once nobody has wanted one for `idle_s`, where it is not well
    any more, and after an error, whose reason it may be."""

    def __init__(
        self, make: Callable[[], T], is_well: Callable[[T], bool], idle_s: float = 30.0
    ) -> None:
        self._make = make
        self._is_well = is_well
        self._idle_s = idle_s
        self._free: list[T] = []
        self._lock = threading.Lock()
        self._take_back: Callable[[], None] = lambda: None

    @contextmanager
    def one(self) -> Iterator[T]:
        one = self._well() or self._make()
        try:
            yield one
        except BaseException:
            one.close()
            raise
        with self._lock:
            self._free.append(one)
            self._take_back()
            self._take_back = call_later(self._idle_s, self._close_soon)

    def _well(self) -> T | None:
        with self._lock:
            found = self._free.pop() if self._free else None
        if found is None or self._is_well(found):
            return found
        found.close()
        return None

    def _close_soon(self) -> None:
        threading.Thread(target=self.close, daemon=True).start()  # which may take its time

    def close(self) -> None:
        """All that are free now."""
        with self._lock:
            ended, self._free = self._free, []
        for one in ended:
            one.close()
