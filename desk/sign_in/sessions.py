"""Who has signed in, and until when: in this process's memory. After a restart all sign in anew."""

import time
from secrets import token_urlsafe
from threading import Lock
from typing import NamedTuple

from gateway.auth.caller import May

PREFIX = "session-"  # no token begins so
_MOST_OF_ONE = 20  # the oldest goes


class Identity(NamedTuple):
    name: str  # for the audit
    may: May


class _Session(NamedTuple):
    whose: Identity
    until_s: float


class Sessions:
    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._lock = Lock()
        self._open: dict[str, _Session] = {}

    def begin(self, whose: Identity) -> str:
        """What the browser shows from now on."""
        secret, now_s = f"{PREFIX}{token_urlsafe(32)}", time.monotonic()
        with self._lock:
            held = {key: one for key, one in self._open.items() if now_s < one.until_s}
            own = [key for key, one in held.items() if one.whose.name == whose.name]
            for key in own[: max(0, len(own) - _MOST_OF_ONE + 1)]:
                del held[key]
            self._open = {**held, secret: _Session(whose, now_s + self._hold_s)}
        return secret

    def find(self, secret: str) -> Identity | None:
        found = self._open.get(secret)
        return found.whose if found and time.monotonic() < found.until_s else None

    def end(self, secret: str) -> None:
        with self._lock:
            self._open.pop(secret, None)
