"""The connections of this process: how many there may be, and who among them is too slow."""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from gateway.http.problems import Problem, last_refusal, retry_after

_SWEEP_S = 0.25
# a stream has nothing to send that could be late, and there may be thousands
_SWEEPS_PER_STREAM = 8
# then others have their turn: thousands may have to be refused at once
_LOOKS_AT_ONCE = 50
# of those that are too many, so many get an answer; further ones are cut
_REFUSED_AT_ONCE_MAX = 64
# where descriptors are short, streams leave some to those who POST
_STREAMS_SHARE_MAX = 0.75
# descriptors for Kafka, the view, logs and those that are being refused
_DESCRIPTORS_KEPT = 192


class Connection(Protocol):
    address: str

    def look(self, now_s: float) -> None:
        """End whatever takes too long."""

    def cut(self) -> None: ...


class Connections:
    """Deadlines are kept by one look at all connections every moment: a timer for each would cost
    every request."""

    def __init__(
        self,
        connections_max: int,
        per_address_max: int,
        streams_max: int = 0,
        streams_share: float = 1.0,
        count_refusal: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.count_refusal = count_refusal
        self._open: set[Connection] = set()
        self._streams: dict[Connection, object] = {}  # each with its holder
        self._streams_of: Counter[object] = Counter()
        self._of_address: Counter[str] = Counter()
        self._affordable = affordable(connections_max + streams_max)
        self._max = connections_max
        self._streams_max = min(streams_max, int(self._affordable * _STREAMS_SHARE_MAX))
        self._streams_share = int(self._streams_max * streams_share)
        self._per_address_max = per_address_max
        self._is_looking = False
        self._looks = 0

    def enter(self, connection: Connection) -> Problem | None:
        """Why it has to go again, if it has to."""
        self._open.add(connection)
        if not self._is_looking:
            self._look_later()
        self._of_address[connection.address] += 1
        every = len(self._open) + len(self._streams)
        excess = max(len(self._open) - self._max, every - self._affordable)
        if excess > _REFUSED_AT_ONCE_MAX:
            connection.cut()
        if excess > 0:
            return _too_many("the gateway has as many connections as it may; come back later")
        if 0 < self._per_address_max < self._of_address[connection.address]:
            return _too_many(
                f"an address has at most {self._per_address_max} connections here; use those that "
                "are open, or ask the operator to raise HEADRACE_CONNECTIONS_PER_ADDRESS_MAX"
            )
        return None

    def set_aside(self, connection: Connection, holder: object) -> Problem | None:
        """As a stream, which stays for long and has a limit of its own; else why it cannot be.
        Who has more than a share of the streams leaves the last share of them to others."""
        streams, share = len(self._streams), self._streams_share
        if streams >= self._streams_max:
            return last_refusal(
                503,
                "too_many_streams",
                f"this gateway has {self._streams_max} event streams, and may have no more: come "
                "back later, or ask the operator to raise HEADRACE_EVENT_STREAMS_MAX",
                retry_after(5),
            )
        if self._streams_of[holder] >= share and streams >= self._streams_max - share:
            return last_refusal(
                429,
                "too_many_streams_of_caller",
                f"this caller has {self._streams_of[holder]} event streams, and the room that is "
                "left is for others (HEADRACE_EVENT_STREAMS_SHARE_MAX): end some of them, or come "
                "back later",
                retry_after(5),
            )
        self._open.discard(connection)
        self._streams[connection] = holder
        self._streams_of[holder] += 1
        return None

    def leave(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._streams:
            self._streams_of[holder := self._streams.pop(connection)] -= 1
            if not self._streams_of[holder]:
                del self._streams_of[holder]
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def _look_later(self) -> None:
        self._is_looking = True
        self._looks += 1
        has_turn = self._looks % _SWEEPS_PER_STREAM == 0
        some = [*self._open, *(self._streams if has_turn else ())]
        asyncio.get_running_loop().call_later(_SWEEP_S, self._look_at, iter(some))

    def _look_at(self, connections: Iterator[Connection]) -> None:
        now_s = time.monotonic()
        some = [*islice(connections, _LOOKS_AT_ONCE)]
        for connection in some:
            connection.look(now_s)
        if some:
            asyncio.get_running_loop().call_soon(self._look_at, connections)
            return
        self._is_looking = False
        if self._open or self._streams:
            self._look_later()


def affordable(connections_max: int) -> int:
    """So many, or as many as the system gives descriptors for when asked for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + _DESCRIPTORS_KEPT
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections_max
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - _DESCRIPTORS_KEPT, 1)


def _too_many(detail: str) -> Problem:
    return last_refusal(
        503,
        "too_many_connections",
        f"{detail}; nothing was written",
        retry_after(1),
    )
