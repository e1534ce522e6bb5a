"""Which signed requests have been here already. Bounded: the oldest are forgotten first.

A request that was forgotten, or that comes to another gateway, is written again under the same
event id, so it still has one effect.
"""

import time
from collections.abc import Callable
from hashlib import blake2b

_KEPT_S = 600.0  # a clock may be 300 s ahead, and its request is taken until it is 300 s behind
_MOST = 200_000
_DIGEST_BYTES = 12


class Nonces:
    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._until_s: dict[bytes, float] = {}  # in the order of their ends

    def is_first(self, key_id: bytes, nonce: bytes) -> bool:
        now_s = self._clock()
        self._forget(now_s)
        digest = blake2b(key_id + b" " + nonce, digest_size=_DIGEST_BYTES).digest()
        if digest in self._until_s:
            return False
        self._until_s[digest] = now_s + _KEPT_S
        return True

    def _forget(self, now_s: float) -> None:
        while self._until_s:
            oldest = next(iter(self._until_s))
            if self._until_s[oldest] > now_s and len(self._until_s) < self._most:
                return
            del self._until_s[oldest]
