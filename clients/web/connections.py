"""Connections to one address, kept open and used again.

httpcore's own pool looks at all of them, and at all who wait, for each request: with 64 at once
that made 120 requests a second in place of 2,800.
"""

import asyncio
import ssl
from collections import deque
from contextlib import suppress

import httpcore

_READ_BYTES_MAX = 64 * 1024  # of an answer; a longer one costs its connection
# as many as have requests under way are kept, or most of a batch's requests would open one anew
_CONNECTIONS_MAX = 256
_KEPT_S = 30.0


class _Open:
    def __init__(self, http: httpcore.AsyncHTTPConnection) -> None:
        self.http = http
        self.requests = 0  # under way
        self.is_spoilt = False  # it gets no other
        # of HTTP/2
        self._stream: httpcore.AsyncNetworkStream | None = None

    def heard(self, answer: httpcore.Response) -> bool:
        """Whether others may share it."""
        if answer.extensions["http_version"] != b"HTTP/2":
            return False
        self._stream = answer.extensions["network_stream"]
        return True

    @property
    def is_well(self) -> bool:
        if not self.http.is_available() or self.http.has_expired():
            return False
        if self._stream is None or self.requests:
            return True
        # what a server says while nobody asks it is most often that it ends
        return not self._stream.get_extra_info("is_readable")


class Connections:
    """A server that speaks HTTP/2 gets all requests on one, as long as that is well. Of another
    one each request has a connection to itself."""

    def __init__(self, origin: httpcore.Origin, tls: ssl.SSLContext) -> None:
        self.is_closed = False
        self._origin, self._tls = origin, tls
        self._shared: _Open | None = None
        self._idle: deque[_Open] = deque()  # used last: at the right
        self._slots = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._closing: asyncio.Task[None] | None = None

    async def send(self, request: httpcore.Request) -> tuple[httpcore.Response, bytes]:
        """With the first bytes of the answer's body."""
        async with self._slots:
            while True:
                with suppress(httpcore.ConnectionNotAvailable):  # it has just ended
                    return await self._send(await self._free(), request)

    async def _send(self, one: _Open, request: httpcore.Request) -> tuple[httpcore.Response, bytes]:
        is_shared = is_whole = False
        one.requests += 1
        try:
            answer, read = await one.http.handle_async_request(request), b""
            is_shared = one.heard(answer)
            try:
                async for chunk in answer.aiter_stream():
                    read += chunk
                    if len(read) > _READ_BYTES_MAX:
                        break
                else:
                    is_whole = True
            finally:
                await answer.aclose()
        finally:
            one.requests -= 1
            one.is_spoilt |= not is_whole or self.is_closed
            await self._give_back(one, is_shared)
        return answer, read

    async def _free(self) -> _Open:
        if self._shared is not None:
            if self._shared.is_well:
                return self._shared
            await self._drop(self._shared)
        while self._idle:
            one = self._idle.pop()
            if one.is_well:
                return one
            await one.http.aclose()
        return _Open(
            httpcore.AsyncHTTPConnection(
                self._origin, ssl_context=self._tls, keepalive_expiry=_KEPT_S, http2=True
            )
        )

    async def _give_back(self, one: _Open, is_shared: bool) -> None:
        if is_shared and not one.is_spoilt and self._shared in (None, one):
            self._shared = one
        elif not is_shared and not one.is_spoilt and one.http.is_idle():
            self._idle.append(one)
        else:
            await self._drop(one)
            return
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._close_unused())

    async def _drop(self, one: _Open) -> None:
        """Whoever has the last request on it closes it."""
        one.is_spoilt = True
        if self._shared is one:
            self._shared = None
        if not one.requests:
            await one.http.aclose()

    async def _close_unused(self) -> None:
        """A server need not end what nobody uses any more."""
        while self._idle or self._shared is not None:
            await asyncio.sleep(_KEPT_S / 2)
            if self._shared is not None and not self._shared.is_well:
                await self._drop(self._shared)
            for one in [one for one in self._idle if not one.is_well]:
                self._idle.remove(one)
                await one.http.aclose()

    async def aclose(self) -> None:
        """Those that have a request under way close with its end."""
        self.is_closed = True
        if self._closing is not None:
            self._closing.cancel()
        if self._shared is not None:
            await self._drop(self._shared)
        while self._idle:
            await self._idle.pop().http.aclose()
