"""Which signed requests have been here already. Bounded: the older half is forgotten first.

A request that was forgotten, or that comes to another gateway, is written again under the same
event id, so it still has one effect.
"""

import time
from collections.abc import Callable

_KEPT_S = 600.0  # a clock may be 300 s ahead, and its request is taken until it is 300 s behind
_MOST = 200_000


class Nonces:
    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._now: set[bytes] = set()
        self._before: set[bytes] = set()
        self._turns_at_s = clock() + _KEPT_S

    def is_first(self, key_id: bytes, nonce: bytes) -> bool:
        now_s = self._clock()
        if now_s >= self._turns_at_s or len(self._now) >= self._most // 2:
            is_recent = now_s < self._turns_at_s + _KEPT_S
            self._before, self._now = self._now if is_recent else set(), set()
            self._turns_at_s = now_s + _KEPT_S
        both = key_id + nonce  # a key's id has one length
        if both in self._now or both in self._before:
            return False
        self._now.add(both)
        return True
