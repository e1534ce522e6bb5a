"""A request to an ingest route, from its head to its answer, on its connection."""

import logging

from gateway.effects.wait import Wait
from gateway.http.exchange import Connection
from gateway.http.message import Answer, Request, refusal, written
from gateway.http.problems import Problem, internal_fault
from gateway.ingest.accept import Ingest
from gateway.ingest.reception import Reception

log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Post:
    __slots__ = (
        *("_connection", "_early", "_expects_continue", "_ingest", "_is_started", "_is_whole"),
        *("_reception", "_wait", "disconnected", "is_refused", "keep_alive", "request"),
        *("response_complete", "response_started"),
    )

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
        self._wait: Wait | None = None

    def start(self) -> None:
        self._is_started = True
        try:
            self._reception = self._ingest.admit(self.request)
            if self._expects_continue and not self._is_whole:
                self._connection.write(_CONTINUE)
            for chunk in self._early:
                self._reception.body.take(chunk)
            if self._is_whole:
                self._accept(self._reception)
        except Exception as error:
            self._fail(error)

    def take_all(self, body: bytes) -> None:
        """`start`, `take` and `end` at once, where the whole body came with the head."""
        self._is_started = self._is_whole = True
        try:
            self._reception = reception = self._ingest.admit(self.request)
            reception.body.take(body)
            self._accept(reception)
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
            self._accept(self._reception)
        except Exception as error:
            self._fail(error)

    def _accept(self, reception: Reception) -> None:
        self._wait = self._ingest.accept(reception, self._respond)

    def be_last(self) -> None:
        self.keep_alive = False
        self._ingest.end_waiting()

    def drop(self, why: str) -> None:
        """A body that is not whole is none."""
        self.disconnected = True
        if not self._is_whole and not self.response_complete:
            self._ingest.refused(self.request, why)
            if self._reception is not None:
                self._reception.span.failed(why)
                self._reception.end()
        elif self._wait is not None and not self.response_complete:
            self._wait.give_up(why)

    def _respond(self, answer: Answer | Problem) -> None:
        try:
            if isinstance(answer, Problem):
                self._fail(answer)
            else:
                self._answer(answer)
        except Exception:  # whoever calls goes on with other payloads
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
        raw, is_last = written(
            answer, self._connection.default_headers(), self.request.method, self.keep_alive
        )
        self.keep_alive = not is_last
        self._connection.write(raw)
        if not self.keep_alive:
            self._connection.close()
        self._connection.on_response_complete()
