"""A request to an ingest route, from its head to its answer, on its connection.

It stands where uvicorn has the cycle of an ASGI application, and is asked by the same names how far
it is. `start` is called as soon as all earlier requests of the connection are answered.
"""

import asyncio
import logging
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.exchange import Answer, Headers, Request, refusal
from gateway.ingest import Ingest, Reception
from gateway.problems import Problem, internal_fault

log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(Protocol):
    def write(self, raw: bytes) -> None: ...

    def close(self) -> None:
        """The answer just written is the last one."""

    def on_response_complete(self) -> None: ...

    def default_headers(self) -> Headers:
        """Those of every answer: the same object as long as they are the same."""


class Post:
    message_event = asyncio.Event()  # uvicorn sets it when a connection ends; nobody waits for it

    def __init__(
        self,
        ingest: Ingest,
        request: Request,
        connection: Connection,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self.keep_alive = keep_alive
        self.is_refused = False
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self._ingest = ingest
        self.request = request
        self._connection = connection
        self._expects_continue = expects_continue
        self._is_started = self._is_whole = False
        self._early: list[bytes] = []  # came before `start`
        self._reception: Reception | None = None

    def start(self) -> None:
        self._is_started = True
        try:
            self._reception = self._ingest.admit(self.request)
            if self._expects_continue and not self._is_whole:
                self._connection.write(_CONTINUE)
            for chunk in self._early:
                self._reception.body.take(chunk)
            if self._is_whole:
                self._ingest.accept(self._reception, self._tell)
        except Exception as error:
            self._fail(error)

    def take(self, chunk: bytes) -> None:
        if self._reception is None:
            self._early.append(chunk)
            return
        try:
            self._reception.body.take(chunk)
        except Problem as problem:
            self._fail(problem)

    def end(self) -> None:
        self._is_whole = True
        if self._reception is None:
            return
        try:
            self._ingest.accept(self._reception, self._tell)
        except Exception as error:
            self._fail(error)

    def drop(self, why: str) -> None:
        """Nobody hears an answer any more, and a body that is not whole is none."""
        self.disconnected = True
        if not self._is_whole and not self.response_complete:
            self._ingest.refused(self.request, why)
            if self._reception is not None:
                self._reception.span.failed(why)
                self._reception.end()

    def _tell(self, told: Answer | Problem) -> None:
        try:
            if isinstance(told, Problem):
                self._fail(told)
            else:
                self._answer(told)
        except Exception:  # whoever tells goes on with other payloads
            log.exception("an answer could not be given")

    def _fail(self, error: Exception) -> None:
        self.is_refused = True
        if not isinstance(error, Problem):
            log.error("a fault in taking a payload", exc_info=error)
        problem = error if isinstance(error, Problem) else internal_fault(self.request.method)
        if self._reception is not None:
            self._reception.span.refused(problem)
        self._ingest.refused(self.request, problem.code, problem.payloads)
        if not self._is_whole and self._expects_continue:
            # whether the refused body follows or not is the client's choice: nobody can tell where
            # its next request would begin
            problem.ends_connection = True
        self._answer(refusal(problem, self.request.target))

    def _answer(self, answer: Answer) -> None:
        if self._reception is not None:
            self._reception.end()
        self.response_started = self.response_complete = True
        if self.disconnected:
            return
        if answer.ends_connection:
            self.keep_alive = False
        begin, is_last = _begin(answer.status, self._connection.default_headers())
        parts = [begin]
        for name, value in answer.headers:
            parts += (name, b": ", value, b"\r\n")
        if is_last:
            self.keep_alive = False
        elif not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"content-length: %d\r\n\r\n" % len(answer.body))
        if self.request.method != "HEAD":
            parts.append(answer.body)
        self._connection.write(b"".join(parts))
        if not self.keep_alive:
            self._connection.close()
        self._connection.on_response_complete()


class _Common(NamedTuple):
    """The headers of every answer, put together once as long as they are the same."""

    headers: Headers
    number: int
    lines: bytes
    is_last: bool  # they end the connection


_common = _Common([], 0, b"", False)


def _begin(status: int, headers: Headers) -> tuple[bytes, bool]:
    """Status line and the headers of every answer; whether these make it the last one."""
    global _common
    if _common.headers is not headers or _common.number != len(headers):
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        _common = _Common(headers, len(headers), lines, (b"connection", b"close") in headers)
    return STATUS_LINE[status] + _common.lines, _common.is_last
