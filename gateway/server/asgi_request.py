"""A request that the application answers, in uvicorn's cycle of one: all but those of payloads."""

import asyncio
import logging
from typing import Any, Protocol, cast

import httptools
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from gateway.auth.mtls import put_into
from gateway.http import exchange
from gateway.http.message import Request

log = logging.getLogger(__name__)


class Connection(exchange.Connection, Protocol):
    transport: asyncio.Transport
    flow: FlowControl
    tasks: set[asyncio.Task[None]]


class _Answers:
    """What the application writes its answers to: `close` waits for a client that still sends."""

    def __init__(self, connection: Connection) -> None:
        self.write = connection.write
        self.close = connection.close
        self.is_closing = connection.transport.is_closing


class AsgiRequest:
    __slots__ = ("_app", "_connection", "_cycle")

    def __init__(
        self,
        app: ASGIApp,
        scope: Scope,
        connection: Connection,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self._app = app
        self._connection = connection
        self._cycle = RequestResponseCycle(
            scope=cast(Any, scope),
            transport=cast(Any, _Answers(connection)),
            flow=connection.flow,
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=cast(Any, connection.default_headers()),
            message_event=asyncio.Event(),
            expect_100_continue=expects_continue,
            keep_alive=keep_alive,
            on_response=connection.on_response_complete,
        )

    @property
    def keep_alive(self) -> bool:
        return self._cycle.keep_alive

    @property
    def response_started(self) -> bool:
        return self._cycle.response_started

    @property
    def response_complete(self) -> bool:
        return self._cycle.response_complete

    def start(self) -> None:
        run = self._cycle.run_asgi(cast(Any, self._app))
        task = asyncio.get_running_loop().create_task(run)
        self._connection.tasks.add(task)
        task.add_done_callback(self._connection.tasks.discard)

    def take(self, chunk: bytes) -> None:
        self._cycle.body += chunk
        if len(self._cycle.body) > HIGH_WATER_LIMIT:
            self._connection.flow.pause_reading()
        self._cycle.message_event.set()

    def end(self) -> None:
        self._cycle.more_body = False
        self._cycle.message_event.set()

    def be_last(self) -> None:
        self._cycle.keep_alive = False

    def drop(self, _: str) -> None:
        self._cycle.disconnected = True
        self._cycle.waiting_for_100_continue = False
        self._cycle.message_event.set()


def scope_of(
    request: Request, version: str, transport: asyncio.Transport, app_state: dict[str, Any]
) -> Scope:
    url = httptools.parse_url(request.target)
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "server": get_local_addr(transport),
        "client": get_remote_addr(transport),
        "scheme": "https" if is_ssl(transport) else "http",
        "root_path": "",
        "method": request.method,
        "path": request.path(),
        "raw_path": url.path,
        "query_string": url.query or b"",
        "headers": request.headers,
        "state": app_state.copy(),
    }
    put_into(scope, request.certified)
    return scope
