"""What the requests of a port become: payloads and streams go past the application."""

from collections.abc import Sequence
from typing import Any, Protocol

from starlette.types import ASGIApp

from gateway.http.exchange import Exchange
from gateway.http.message import Request
from gateway.http.page_origins import PageOrigins
from gateway.ingest.accept import Ingest
from gateway.ingest.post_request import Post
from gateway.server import asgi_request
from gateway.server.asgi_request import AsgiRequest, scope_of
from gateway.server.request_reader import Head
from gateway.streams import stream
from gateway.streams.streams import Streams


class Connection(asgi_request.Connection, stream.Connection, Protocol):
    pass


class Exchanges:
    def __init__(
        self, ingest: Ingest | None, streams: Sequence[Streams[Any]], pages: PageOrigins
    ) -> None:
        self._ingest = ingest
        self._streams = streams
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
        for streams in self._streams:
            if streams.is_for(request):
                found: Exchange = streams.stream(request, connection)
                return found
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
