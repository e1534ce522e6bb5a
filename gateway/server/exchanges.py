"""What the requests of a port become: payloads and event streams go past the application."""

from typing import Any, Protocol

from starlette.types import ASGIApp

from gateway.event_streams import event_stream
from gateway.event_streams.streams import EventStreams
from gateway.http.exchange import Exchange
from gateway.http.message import Request
from gateway.http.page_origins import PageOrigins
from gateway.ingest.accept import Ingest
from gateway.ingest.post_request import Post
from gateway.server import asgi_request
from gateway.server.asgi_request import AsgiRequest, scope_of
from gateway.server.request_reader import Head


class Connection(asgi_request.Connection, event_stream.Connection, Protocol):
    pass


class Exchanges:
    def __init__(
        self, ingest: Ingest | None, events: EventStreams | None, pages: PageOrigins
    ) -> None:
        self._ingest = ingest
        self._events = events
        self._pages = pages

    def begin(
        self,
        connection: Connection,
        request: Request,
        head: Head,
        app: ASGIApp,
        app_state: dict[str, Any],
    ) -> Exchange:
        ingest, keep_alive, waits = self._ingest, head.keep_alive, head.expects_continue
        if self._events is not None and self._events.is_for(request):
            return self._events.stream(request, connection)
        if (
            ingest is not None
            and ingest.is_for(request)
            and not self._pages.is_first_question(request)
        ):
            return Post(ingest, request, connection, keep_alive, waits)
        scope = scope_of(request, head.version, connection.transport, app_state)
        return AsgiRequest(app, scope, connection, keep_alive, waits)

    def known_post(self, connection: Connection, request: Request) -> Post:
        assert self._ingest is not None  # whose heads they are
        return Post(self._ingest, request, connection, True, False)
