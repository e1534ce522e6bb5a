"""A request for a stream, from its head to its last word, on its connection."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Protocol

from gateway.http import exchange
from gateway.http.message import Request, refusal, written
from gateway.http.problems import Problem, internal_fault, retry_after
from gateway.streams import frames
from gateway.streams.channels import Channel
from gateway.streams.frames import Reason
from gateway.streams.log_position import LogPosition, Scope

log = logging.getLogger(__name__)

# then its connection is asked whether its reader takes them: an event may have a MiB
BYTES_AT_ONCE = 256 * 1024


class Flow(Protocol):
    @property
    def write_paused(self) -> bool: ...

    async def drain(self) -> None: ...


class Connection(exchange.Connection, Protocol):
    @property
    def flow(self) -> Flow: ...

    def set_aside(self, holder: object) -> Problem | None:
        """It does not count among the connections any more; else why it cannot be a stream."""


class Hub(Protocol):
    def end(self, stream: Any, reason: Reason) -> None: ...

    def forget(self, stream: Any) -> None: ...


class Ended(Exception):  # noqa: N818 - it is what happens to a stream
    """It gets its last word."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Stream:
    """As long as `position` is there, it is behind the end of the log, and its task brings it
    there. At the end it is a member of its channel."""

    __slots__ = (
        *("_connection", "_lines", "_open", "channel", "hub", "is_over", "position", "request"),
        *("response_complete", "response_started", "scope", "valid_until_s"),
    )
    keep_alive = False  # its answer has no end but that of the connection
    scope: Scope

    def __init__(
        self,
        open_: Callable[[Any], None],
        request: Request,
        connection: Connection,
        lines: bytes = b"",
    ) -> None:
        """`open_` raises a Problem where the request is refused at once. `lines`: further headers
        of the answer."""
        self._open = open_
        self._lines = lines
        self._connection = connection
        self.request = request
        self.response_started = self.response_complete = False
        self.is_over = False
        self.valid_until_s = math.inf  # where its credential cannot be asked again
        self.position: LogPosition | None = None
        self.hub: Hub | None = None
        self.channel: Channel[Any, Any] | None = None

    # what the connection asks

    def start(self) -> None:
        try:
            self._open(self)
        except Problem as problem:
            self.refuse(problem)
        except Exception:
            log.exception("a fault in beginning a stream")
            self.refuse(internal_fault(self.request.method))

    def take(self, chunk: bytes) -> None:
        """Nothing that a stream looks at."""

    def end(self) -> None:
        pass

    def drop(self, _: str) -> None:
        self.is_over = True
        if self.hub is not None:
            self.hub.forget(self)

    def be_last(self) -> None:
        if self.hub is not None:
            self.hub.end(self, "ending")

    # what the hub asks

    def set_aside(self, holder: object) -> None:
        """Problem where there are too many, of all or of this holder."""
        if problem := self._connection.set_aside(holder):
            raise problem

    @property
    def is_paused(self) -> bool:
        """Its reader takes less than there is."""
        return self._connection.flow.write_paused

    async def is_writable(self) -> None:
        await self._connection.flow.drain()

    async def has_room(self, stall_s: float) -> None:
        """Ended where its reader takes nothing for so long."""
        try:
            async with asyncio.timeout(stall_s):
                await self.is_writable()
        except TimeoutError:
            raise Ended("slow") from None

    def begin(self, id_: bytes, retry_ms: int) -> None:
        self.response_started = True
        default = self._connection.default_headers()
        self.write(frames.head(default, self._lines, id_, retry_ms))

    def write(self, raw: bytes) -> None:
        self._connection.write(raw)

    def refuse(self, problem: Problem) -> None:
        if self.is_over:
            return
        self.is_over = self.response_started = self.response_complete = True
        answer = refusal(problem, self.request.target)
        answer = answer._replace(lines=answer.lines + self._lines)
        default, method = self._connection.default_headers(), self.request.method
        self._connection.write(written(answer, default, method, keep_alive=False)[0])
        self._close()

    def close(self) -> None:
        self.response_complete = True
        self._close()

    def _close(self) -> None:
        self._connection.close()
        self._connection.on_response_complete()


def is_ending() -> Problem:
    return Problem(
        503,
        "ending",
        "this gateway is about to end: come again, another one goes on",
        headers=retry_after(1),
    )
