"""Long answers one after the other, and not too many that wait."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.http.problems import Problem, retry_after


class Turns:
    """Those who ask at the same time share the time of one."""

    def __init__(self, at_most: int, code: str, too_many: str) -> None:
        self._lock = asyncio.Lock()
        self._at_most = at_most
        self._code = code
        self._too_many = too_many
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[asyncio.Lock]:
        if self._count == self._at_most:
            detail = f"{self._too_many}; ask again in a second"
            raise Problem(503, self._code, detail, headers=retry_after(1))
        self._count += 1
        try:
            yield self._lock
        finally:
            self._count -= 1
