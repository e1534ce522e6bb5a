"""Each stream says from time to time that it is there and how far it is, and is asked again whether
its reader still may read."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.auth.authenticate import Authenticator
from gateway.http.problems import Problem
from gateway.streams.loop_share import LoopShare
from gateway.streams.stream import Stream

_LOOK_EVERY_S = 0.25


class Heartbeats:
    def __init__(
        self,
        every_s: float,
        who: Authenticator,
        beat: Callable[[Any], None],
        forbid: Callable[[Any], None],
    ) -> None:
        self._every_s = every_s
        self._who = who
        self._beat = beat
        self._forbid = forbid
        self._due: deque[tuple[float, Stream]] = deque()  # the same pause for all keeps order

    def add(self, stream: Stream) -> None:
        self._due.append((time.monotonic() + self._every_s, stream))

    def forget(self) -> None:
        self._due.clear()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now_s = time.monotonic()
            share = LoopShare()
            while self._due and self._due[0][0] <= now_s:
                _, stream = self._due.popleft()
                if stream.is_over:
                    continue
                self._due.append((now_s + self._every_s, stream))
                if now_s >= stream.valid_until_s or not self._still_holds(stream):
                    self._forbid(stream)
                else:
                    self._beat(stream)
                if share.is_used_up():
                    await share.give_back()

    def _still_holds(self, stream: Stream) -> bool:
        """A stream may be open for days: whose credential is revoked or expired reads no further.
        A signature is good once, so such a stream has its time instead."""
        if stream.valid_until_s < math.inf:
            return True
        method, target, _, by_name, _, certified = stream.request
        try:
            self._who.is_asking(method, target, by_name, certified)
        except Problem as problem:
            return problem.status != 401
        return True
