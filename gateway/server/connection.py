"""A client's connection: HTTP/1.1 by uvicorn and its parser, made safe against hostile clients.

The way of a request: `data_received` feeds the parser; at `on_headers_complete` the head is whole,
is judged, and the application starts; `on_body` and `on_message_complete` hand the body over;
`on_response_complete` is called when the answer is written. Whatever is wrong ends in `refuse`: the
answer comes after those to earlier requests, and then the connection ends.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, cast

import httptools
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.auth.mtls import certified_by, put_into
from gateway.http.message import Certified, Request, refusal, written
from gateway.http.problems import Problem, retry_after
from gateway.http.request_rules import (
    HEAD_BYTES_MAX,
    TARGET_BYTES_MAX,
    expects_continue,
    head_too_large,
    judge,
    target_too_long,
)
from gateway.ingest.accept import CLIENT_GONE, Ingest
from gateway.ingest.post_request import Post
from gateway.server.connection_limits import Connections
from gateway.server.head_cache import KnownHeads
from gateway.server.own_pages import OwnPages
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_PIPELINED_MAX = 100
# chunk sizes and line ends; what is more than that is in extensions
_BYTES_PER_CHUNK_MAX = 32
# closing a socket that still receives resets it and the client loses the answer: so much time and
# room it gets to hear it
_LINGER_S = 2.0
_LINGER_LATE_S = 0.3
_UNREAD_BYTES_MAX = 16 * 1024 * 1024


class Limits(NamedTuple):
    """How long a client may take."""

    head_s: float
    keep_alive_s: float
    body_pause_s: float
    body_s: float

    @classmethod
    def of(cls, settings: GatewaySettings) -> "Limits":
        return cls(
            settings.head_deadline_s,
            settings.keep_alive_s,
            settings.body_pause_max_s,
            settings.body_deadline_s,
        )


class _Receiving(Enum):
    """What is expected of the client."""

    HEAD = 1
    BODY = 2
    NEXT = 3  # the next request, or patience until this one is answered
    NOTHING = 4  # what still comes is not looked at: an answer is the last one
    END = 5  # the last answer is written


# the enum's own attributes take five times as long, and each request asks a dozen times
_HEAD, _BODY, _NEXT, _NOTHING, _END = _Receiving


class _NoMore(Exception):  # noqa: N818 - it is what the last request said
    """Another request behind one that ends the connection."""


class _Answers:
    """What the application writes its answers to: `close` waits for a client that still sends."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class GatewayProtocol(HttpToolsProtocol):
    # with uvicorn's own ones there would be more than Python keeps the places of: each would then
    # be looked for
    __slots__ = (
        *("_answers", "_arrived_bytes", "_body_bytes", "_certified", "_chunks", "_connections"),
        *("_ends_at_s", "_expects_continue", "_framing_bytes", "_heads_read", "_ingest"),
        *("_known_heads", "_limits", "_own_pages", "_read_at_s", "_read_bytes", "_receiving"),
        *("_refusal", "_since_s", "_unanswered", "_unread_bytes", "_upgrades"),
        *("_write_paused_at_s", "address"),
    )

    def __init__(
        self,
        limits: Limits,
        connections: Connections,
        ingest: Ingest | None,
        known_heads: KnownHeads,
        own_pages: OwnPages | None,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.address = ""
        self.url = b""
        self._limits = limits
        self._connections = connections
        self._certified: Certified | None = None
        self._ingest = ingest
        self._known_heads = known_heads
        self._own_pages = own_pages
        self._receiving = _HEAD
        self._since_s = self._read_at_s = time.monotonic()
        self._ends_at_s: float | None = None
        self._write_paused_at_s = 0.0
        self._unanswered = 0
        self._refusal: Problem | None = None
        self._expects_continue = False
        self._upgrades = False  # the head that was read asks for another protocol
        # of the message being received, all but its body; not what came in one read with the end of
        # the message before it
        self._framing_bytes = 0
        self._read_bytes = self._heads_read = 0  # at once, the last time
        self._arrived_bytes = 0  # with this message, from the read on in which it began
        self._chunks = 0
        self._body_bytes = 0
        self._unread_bytes = 0

    # the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._certified = certified_by(transport)
        self._answers = _Answers(transport, self.close)
        too_many = self._connections.enter(self)
        if too_many is not None:
            self.refuse(too_many)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        for cycle in (self.cycle, *(waiting for waiting, _ in self.pipeline)):
            if isinstance(cycle, Post):
                cycle.drop(CLIENT_GONE)
        super().connection_lost(exc)

    def cut(self) -> None:
        self.transport.abort()

    # what arrives

    def data_received(self, data: bytes) -> None:
        if self._receiving is _NOTHING or self._receiving is _END:
            self._leave_unread(len(data))
            return
        self._read_at_s = time.monotonic()
        is_fresh = (
            not self._unanswered
            and not self._framing_bytes
            and (self._receiving is _NEXT or self.cycle is None)
        )
        if is_fresh and self._read_again(data):
            return
        self._heads_read = 0
        self._read_bytes = read_bytes = len(data)
        self._arrived_bytes += read_bytes
        self._framing_bytes += read_bytes
        try:
            self._feed(data)
        except httptools.HttpParserCallbackError as error:
            self._stop(error.__context__)
        except httptools.HttpParserError as error:
            self.refuse(_malformed(error))
        else:
            if self._framing_bytes > HEAD_BYTES_MAX + _BYTES_PER_CHUNK_MAX * self._chunks:
                self.refuse(self._too_much_framing())
            elif self._framing_bytes < 0:  # a body whose head was not counted
                self._framing_bytes = 0
            elif is_fresh and self._heads_read == 1 and self._receiving is _NEXT:
                self._learn(data)

    def _feed(self, data: bytes) -> None:
        """A server may ignore the wish for another protocol (RFC 9110, 7.8), and this one does; the
        parser does not, and takes what follows for that protocol. So it reads the head again,
        without the wish."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._upgrades:
                    raise
                rest = data[upgrade.args[0] :]
            self._upgrades = False
            data = self._head_without_upgrade() + rest
            self.parser = httptools.HttpRequestParser(self)

    def _head_without_upgrade(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        lines = [b"%s %s HTTP/%s" % (method, self.url, version.encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def _read_again(self, data: bytes) -> bool:
        """Whether this is all of a request whose head is known: then the parser need not see it,
        which stays between two requests."""
        found = self._known_heads.find(data, self.address, self._certified)
        if found is None or not (self.cycle is None or self.cycle.keep_alive):
            return False
        request, body_at = found
        self._unanswered = 1
        self._receiving = _BODY
        self._since_s = self._read_at_s
        self._expects_continue = False
        assert self._ingest is not None  # whose heads they are
        self.cycle = post = Post(self._ingest, request, self, True, False)  # type: ignore[assignment]
        post.take_all(data[body_at:])
        self._receiving = _NEXT
        return True

    def _learn(self, data: bytes) -> None:
        cycle = self.cycle
        if isinstance(cycle, Post) and cycle.keep_alive and not cycle.is_refused:
            self._known_heads.learn(data, cycle.request)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that sends no more may still wait for answers."""
        if self._receiving is _END:
            return False
        if self._receiving is _BODY:
            self._drop_request(CLIENT_GONE)
        self._receiving = _NOTHING
        return self._unanswered > 0

    def on_message_begin(self) -> None:
        if self.cycle is not None and not self.cycle.keep_alive:
            raise _NoMore
        self.url = b""
        self.headers = []
        self._receiving = _HEAD
        self._since_s = self._read_at_s
        self._arrived_bytes = self._read_bytes

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > TARGET_BYTES_MAX:
            raise target_too_long()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._receiving is _BODY:
            raise _bad("trailers_refused", "send headers before the body, not after it")
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        headers = self.headers
        by_name = judge(method, version, self.url, headers, self._arrived_bytes)
        if self._own_pages is not None:
            self._own_pages.judge(by_name.get(b"host"), by_name.get(b"origin"))
        if b"upgrade" in by_name and self.parser.should_upgrade():
            self._upgrades = True
            return
        waits = expects_continue(version, by_name.get(b"expect"))
        if self._unanswered >= _PIPELINED_MAX:
            raise _too_many_pipelined()
        self._heads_read += 1
        self._unanswered += 1
        self._receiving = _BODY
        self._since_s = self._read_at_s
        self._expects_continue = waits
        request = Request(
            method.decode(), self.url, headers, by_name, self.address, self._certified
        )
        if self._ingest is not None and self._ingest.is_for(request):
            keep_alive = version != "1.0" and self.parser.should_keep_alive()
            self._begin(Post(self._ingest, request, self, keep_alive, waits))
        else:
            self._begin_asgi()

    def _begin(self, post: Post) -> None:
        earlier, self.cycle = self.cycle, post  # type: ignore[assignment]
        if earlier is None or earlier.response_complete:
            post.start()
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((post, self.app))  # type: ignore[arg-type]

    def _begin_asgi(self) -> None:
        url, headers = self.url, self.headers
        super().on_message_begin()  # makes the scope, which a payload does not need
        put_into(cast(Scope, self.scope), self._certified)
        self.url, self.headers, self.scope["headers"] = url, headers, headers
        self.expect_100_continue = self._expects_continue
        super().on_headers_complete()
        self.cycle.transport = self._answers  # type: ignore[assignment]

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if isinstance(cycle, Post):
            cycle.start()
        else:
            super()._start_asgi_task(cycle, app)

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= len(body)
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            self._leave_unread(len(body))
        elif isinstance(cycle, Post):
            cycle.take(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._upgrades:
            return
        cycle = self.cycle
        if isinstance(cycle, Post):
            if not cycle.response_complete:
                cycle.end()
        else:
            super().on_message_complete()
        self._receiving = _NEXT
        self._since_s = self._read_at_s
        self._framing_bytes = self._chunks = self._body_bytes = 0

    # what is answered

    def write(self, raw: bytes) -> None:
        self.transport.write(raw)

    def close(self) -> None:
        if self._receiving in (_BODY, _NOTHING):
            self._end(_LINGER_S)
        elif self._receiving is not _END:
            self.transport.close()

    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self.server_state.default_headers

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._unanswered -= 1
        if self.transport.is_closing() or self._receiving is _END:
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._answer(self._refusal)
        elif self._receiving is _NEXT:
            self._since_s = time.monotonic()
        elif self._receiving is _NOTHING:
            self.transport.close()
        elif self._receiving is _BODY and self._expects_continue:
            # whether the body follows or the next request is the client's choice: nobody can tell
            self._end(_LINGER_S)

    def refuse(self, problem: Problem) -> None:
        """The request being received; `problem` is the last answer of the connection."""
        if self._receiving in (_NOTHING, _END):
            return
        self._connections.count_refusal(problem.code)
        is_answered = self._receiving is _BODY and self._drop_request(problem.code)
        self._receiving = _NOTHING
        if is_answered:
            self._end(_LINGER_S)
        elif self._unanswered:
            self._refusal = problem
        else:
            self._answer(problem)

    def _drop_request(self, why: str) -> bool:
        """Takes the request whose body is being received from the application; whether that has
        answered it, at least in part."""
        cycle = self.cycle
        if cycle.response_complete:
            return True
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        if isinstance(cycle, Post):
            cycle.drop(why)
        cycle.disconnected = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self._unanswered -= 1
        return cycle.response_started

    def _answer(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        method = self.parser.get_method().decode()
        answer = refusal(problem, self.url)
        raw, _ = written(answer, self.default_headers(), method, keep_alive=False)
        self.transport.write(raw)
        self._end(_LINGER_LATE_S if problem.status == 408 else _LINGER_S)

    def _stop(self, reason: BaseException | None) -> None:
        if isinstance(reason, Problem):
            self.refuse(reason)
        elif isinstance(reason, _NoMore):
            self._receiving = _NOTHING
        else:
            log.error("a fault in reading a request", exc_info=reason)
            self.refuse(Problem(500, "internal_fault", "a fault of the gateway", outcome="unknown"))

    def _end(self, linger_s: float) -> None:
        self._receiving = _END
        self._ends_at_s = time.monotonic() + linger_s
        self.flow.resume_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _leave_unread(self, size_bytes: int) -> None:
        self._unread_bytes += size_bytes
        if self._unread_bytes > _UNREAD_BYTES_MAX:
            self.cut()

    # who is too slow

    def look(self, now_s: float) -> None:
        if self._ends_at_s is not None:
            if now_s >= self._ends_at_s:
                self.cut()
        elif self.transport.is_closing():
            self._ends_at_s = now_s + _LINGER_S  # for what is written and not yet fetched
        elif self.flow.write_paused:
            if now_s - self._write_paused_at_s > self._limits.body_pause_s:
                self.cut()
        elif self.flow.read_paused:
            self._since_s = self._read_at_s = now_s  # it is us who are slow
        elif self._receiving is _HEAD:
            self._look_at_head(now_s - self._since_s)
        elif self._receiving is _BODY:
            self._look_at_body(now_s - self._since_s, now_s - self._read_at_s)
        elif self._receiving is _NEXT and not self._unanswered:
            self._look_at_idleness(now_s - self._since_s)

    def pause_writing(self) -> None:
        self._write_paused_at_s = time.monotonic()
        super().pause_writing()

    def _look_at_head(self, age_s: float) -> None:
        if age_s <= self._limits.head_s:
            return
        if self.cycle is None and not self._framing_bytes:
            self.transport.close()  # an answer to nothing would be taken for one to the next
        else:
            self.refuse(
                _slow(
                    "head_too_slow",
                    f"a request's head has to come within {self._limits.head_s:g} s here",
                )
            )

    def _look_at_idleness(self, age_s: float) -> None:
        if age_s > self._limits.keep_alive_s:
            self.transport.close()

    def _look_at_body(self, age_s: float, pause_s: float) -> None:
        pause_max_s, age_max_s = self._limits.body_pause_s, self._limits.body_s
        if age_s > age_max_s or pause_s > pause_max_s:
            self.refuse(
                _slow(
                    "body_too_slow",
                    f"a body has to come within {age_max_s:g} s here, without a pause of "
                    f"{pause_max_s:g} s; of this one {self._body_bytes} bytes came: send it again, "
                    "faster or in smaller parts",
                )
            )

    def _too_much_framing(self) -> Problem:
        if self._receiving is _BODY:
            return _bad("bad_chunks", "send chunks without extensions, and larger ones")
        return head_too_large()


def _malformed(error: httptools.HttpParserError) -> Problem:
    # the parser's own fixed words: nothing of what was sent is in them
    return _bad("malformed_request", f"this is no HTTP/1.1 as RFC 9112 writes it: {error}")


def _too_many_pipelined() -> Problem:
    return Problem(
        503,
        "too_many_pipelined",
        f"at most {_PIPELINED_MAX} requests of a connection wait for their answers; nothing of "
        "this one was written, send it again after them",
        outcome="definite",
        headers=retry_after(1),
        ends_connection=True,
    )


def _slow(code: str, detail: str) -> Problem:
    return Problem(408, code, detail, outcome="definite", ends_connection=True)


def _bad(code: str, detail: str) -> Problem:
    return Problem(400, code, detail, outcome="definite", ends_connection=True)
