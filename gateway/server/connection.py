"""A client's connection: HTTP/1.1, made safe against hostile clients.

The way of a request: `data_received` feeds the reader. `on_head`: the head is whole and judged, and
its exchange begins, of the kind that `exchanges.py` chooses. `on_body` and `on_end` hand the body
over, and `on_response_complete` says that the answer is written.
Whatever is wrong ends in
`refuse`: the answer comes after those to earlier requests, then the connection ends.
"""

import asyncio
import logging
import time
from collections import deque
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from gateway.auth.mtls import certified_by
from gateway.http.exchange import Exchange
from gateway.http.message import Certified, Headers, Request, last_answer
from gateway.http.problems import Problem
from gateway.http.request_rules import PIPELINED_MAX, too_many_pipelined
from gateway.ingest.accept import CLIENT_GONE
from gateway.ingest.post_request import Post
from gateway.server.browser_origin import BrowserOrigin
from gateway.server.connection_limits import Connections
from gateway.server.deadlines import BODY, END, HEAD, LINGER_S, NEXT, NOTHING, Deadlines, Limits
from gateway.server.exchanges import Exchanges
from gateway.server.head_cache import KnownHeads
from gateway.server.request_reader import Head, NoMore, RequestReader

log = logging.getLogger(__name__)

_UNREAD_BYTES_MAX = 16 * 1024 * 1024  # that a client who was answered still sends
_LINGER_LATE_S = 0.3


class HttpConnection(asyncio.Protocol):
    __slots__ = (
        *("_app", "_app_state", "_certified", "_deadlines", "_exchanges", "_expects_continue"),
        *("_known_heads", "_pipeline", "_refusal", "_server_state", "_unread_bytes", "address"),
        *("_connections", "exchange", "flow", "reader", "receiving", "tasks", "transport"),
        "unanswered",
    )
    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        limits: Limits,
        connections: Connections,
        exchanges: Exchanges,
        known_heads: KnownHeads,
        browser_origin: BrowserOrigin | None,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """The last four are uvicorn's."""
        self._app: ASGIApp = config.loaded_app
        self._app_state = app_state
        self._server_state = server_state
        self.tasks = server_state.tasks
        self._connections = connections
        self._exchanges = exchanges
        self._known_heads = known_heads
        self.reader = RequestReader(self, browser_origin)
        self._deadlines = Deadlines(limits)
        self.exchange: Exchange | None = None  # of the request that came last
        self._pipeline: deque[Exchange] = deque()  # those that wait for earlier ones
        self._certified: Certified | None = None
        self.address = ""
        self.receiving = HEAD
        self.unanswered = 0
        self._refusal: Problem | None = None
        self._expects_continue = False
        self._unread_bytes = 0

    # the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._server_state.connections.add(self)  # type: ignore[arg-type]
        self.transport = transport
        self.flow = FlowControl(transport)
        self.address = (get_remote_addr(transport) or ("",))[0]
        self._certified = certified_by(transport)
        if too_many := self._connections.enter(self):
            self.refuse(too_many)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        self._server_state.connections.discard(self)
        for exchange in (self.exchange, *self._pipeline):
            if exchange is not None:
                exchange.drop(CLIENT_GONE)
        self.exchange = None  # they hold each other
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.reader.release()

    def shutdown(self) -> None:
        """The server ends: as soon as what is under way is answered."""
        if self.exchange is None or self.exchange.response_complete:
            self.transport.close()
        else:
            self.exchange.be_last()

    def cut(self) -> None:
        self.transport.abort()

    def look(self, now_s: float) -> None:
        self._deadlines.look(now_s, self)

    def pause_writing(self) -> None:
        self._deadlines.write_paused_at_s = time.monotonic()
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    # what arrives

    def data_received(self, data: bytes) -> None:
        if self.receiving is NOTHING or self.receiving is END:
            self._leave_unread(len(data))
            return
        self._deadlines.read_at_s = time.monotonic()
        reader = self.reader
        is_fresh = (
            not self.unanswered
            and not reader.framing_bytes
            and (self.receiving is NEXT or self.exchange is None)
        )
        if is_fresh and self._read_again(data):
            return
        try:
            reader.feed(data)
        except Problem as problem:
            self.refuse(problem)
        except NoMore:
            self.receiving = NOTHING
        except Exception:
            log.exception("a fault in reading a request")
            self.refuse(Problem(500, "internal_fault", "a fault of the gateway", outcome="unknown"))
        else:
            if is_fresh and reader.heads_read == 1 and self.receiving is NEXT:
                self._learn(data)

    def _read_again(self, data: bytes) -> bool:
        """Whether this is all of a request whose head is known: then the parser need not see it,
        which stays between two requests."""
        found = self._known_heads.find(data, self.address, self._certified)
        if found is None or not (self.exchange is None or self.exchange.keep_alive):
            return False
        request, body_at = found
        self.unanswered = 1
        self.receiving = BODY
        self._deadlines.since_s = self._deadlines.read_at_s
        self._expects_continue = False
        self.exchange = post = self._exchanges.known_post(self, request)
        post.take_all(data[body_at:])
        self.receiving = NEXT
        return True

    def _learn(self, data: bytes) -> None:
        post = self.exchange
        if isinstance(post, Post) and post.keep_alive and not post.is_refused:
            self._known_heads.learn(data, post.request)

    def eof_received(self) -> bool:
        """A client that sends no more may still wait for answers."""
        if self.receiving is END:
            return False
        if self.receiving is BODY:
            self._drop_request(CLIENT_GONE)
        self.receiving = NOTHING
        return self.unanswered > 0

    def on_begin(self) -> None:
        if self.exchange is not None and not self.exchange.keep_alive:
            raise NoMore
        self.receiving = HEAD
        self._deadlines.since_s = self._deadlines.read_at_s

    def on_head(self, head: Head) -> None:
        if self.unanswered >= PIPELINED_MAX:
            raise too_many_pipelined()
        self.unanswered += 1
        self.receiving = BODY
        self._deadlines.since_s = self._deadlines.read_at_s
        self._expects_continue = head.expects_continue
        method, _, target, headers, by_name, *_ = head
        request = Request(method, target, headers, by_name, self.address, self._certified)
        exchange = self._exchanges.begin(self, request, head, self._app, self._app_state)
        earlier, self.exchange = self.exchange, exchange
        if earlier is None or earlier.response_complete:
            exchange.start()
        else:
            self.flow.pause_reading()
            self._pipeline.append(exchange)

    def on_body(self, chunk: bytes) -> None:
        assert self.exchange is not None  # since `on_head`
        if self.exchange.response_complete:
            self._leave_unread(len(chunk))
        else:
            self.exchange.take(chunk)

    def on_end(self) -> None:
        assert self.exchange is not None
        if not self.exchange.response_complete:
            self.exchange.end()
        self.receiving = NEXT
        self._deadlines.since_s = self._deadlines.read_at_s

    # what is answered

    def write(self, raw: bytes) -> None:
        self.transport.write(raw)

    def close(self) -> None:
        if self.receiving in (BODY, NOTHING):
            self._end(LINGER_S)
        elif self.receiving is not END:
            self.transport.close()

    def default_headers(self) -> Headers:
        return self._server_state.default_headers

    def set_aside(self, holder: object) -> Problem | None:
        return self._connections.set_aside(self, holder)

    def on_response_complete(self) -> None:
        self._server_state.total_requests += 1
        self.unanswered -= 1
        if self.transport.is_closing() or self.receiving is END:
            return
        self.flow.resume_reading()
        if self._pipeline:
            self._pipeline.popleft().start()
        elif self._refusal is not None:
            self._answer(self._refusal)
        elif self.receiving is NEXT:
            self._deadlines.since_s = time.monotonic()
        elif self.receiving is NOTHING:
            self.transport.close()
        elif self.receiving is BODY and self._expects_continue:
            # whether the body follows or the next request is the client's choice: nobody can tell
            self._end(LINGER_S)

    def refuse(self, problem: Problem) -> None:
        """The request being received; `problem` is the last answer of the connection."""
        if self.receiving in (NOTHING, END):
            return
        self._connections.count_refusal(problem.code)
        is_answered = self.receiving is BODY and self._drop_request(problem.code)
        self.receiving = NOTHING
        if is_answered:
            self._end(LINGER_S)
        elif self.unanswered:
            self._refusal = problem
        else:
            self._answer(problem)

    def _drop_request(self, why: str) -> bool:
        """The one whose body is being received; whether it is answered, at least in part."""
        exchange = self.exchange
        assert exchange is not None
        if exchange.response_complete:
            return True
        if self._pipeline and self._pipeline[-1] is exchange:
            self._pipeline.pop()
        exchange.drop(why)
        self.unanswered -= 1
        return exchange.response_started

    def _answer(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        method, target = self.reader.method(), self.reader.target
        self.write(last_answer(problem, self.default_headers(), method, target))
        self._end(_LINGER_LATE_S if problem.status == 408 else LINGER_S)

    def _end(self, linger_s: float) -> None:
        self.receiving = END
        self._deadlines.ends_at_s = time.monotonic() + linger_s
        self.flow.resume_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _leave_unread(self, size_bytes: int) -> None:
        self._unread_bytes += size_bytes
        if self._unread_bytes > _UNREAD_BYTES_MAX:
            self.cut()
