"""uvicorn, set up the same way for each port, on sockets that are opened here."""

import gc
import math
import socket
import time
from asyncio import Protocol
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
import uvloop
from fastapi import FastAPI

from gateway.http.page_origins import PageOrigins
from gateway.http.tls import ServerTls
from gateway.ingest.accept import Ingest
from gateway.node.node import Node
from gateway.server.browser_origin import browser_origin
from gateway.server.connection import HttpConnection
from gateway.server.connection_limits import Connections
from gateway.server.deadlines import Limits
from gateway.server.exchanges import Exchanges
from gateway.server.head_cache import KnownHeads
from gateway.streams.streams import Streams
from shared.settings import GatewaySettings

_HANDSHAKE_S = 5.0
_OBJECTS_PER_LOOK = 50_000
_LAST_ANSWER = (b"connection", b"close")


class CannotListenError(Exception):
    """In one sentence for the operator."""


def server_config(
    app: FastAPI,
    settings: GatewaySettings,
    node: Node | None = None,
    ingest: Ingest | None = None,
    streams: Sequence[Streams[Any]] = (),
) -> uvicorn.Config:
    """Without `ingest` and `streams` the application answers all requests."""
    tls = ServerTls(settings) if settings.tls_cert_file else None
    connections = Connections(
        settings.connections_max,
        settings.connections_per_address_max,
        settings.event_streams_max if streams else 0,
        settings.event_streams_share_max,
        (node or Node()).counts.request_refused,
    )
    protocol = partial(
        HttpConnection,
        Limits.of(settings),
        connections,
        Exchanges(ingest, streams, PageOrigins(settings.page_origins)),
        KnownHeads(),
        browser_origin(settings),
    )
    return uvicorn.Config(
        app,
        loop="gateway.server.server:Loop",
        ssl_context_factory=(lambda *_: tls.context) if tls else None,
        http=cast(type[Protocol], protocol),
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s),
    )


class Loop(uvloop.Loop):
    """uvloop's own deadline for a TLS handshake is a minute, in which a client costs a connection
    that nobody counts yet."""

    async def create_server(self, *args: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = _HANDSHAKE_S
        return await super().create_server(*args, **options)


class GatewayServer(uvicorn.Server):
    """Says good-bye before it closes: for a moment connections are still taken and each answer is
    the last of its connection, so that no request runs into a socket that was just closed."""

    def __init__(self, config: uvicorn.Config, node: Node, drain_s: float) -> None:
        super().__init__(config)
        self._node = node
        self._drain_s = drain_s
        self._closes_at_s: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except OSError as error:
            await self.lifespan.shutdown()
            raise CannotListenError(f"cannot listen any more: {error}") from None
        # what was imported stays: looking through it at each full collection takes 16 ms, in which
        # nobody is answered
        gc.collect()
        gc.freeze()
        # what payloads in flight are made of has no cycles: to look for some after each 700 new
        # objects took a quarter of the time of a load of batches
        gc.set_threshold(_OBJECTS_PER_LOOK)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._closes_at_s is None:
            self._node.is_ending = True
            self._closes_at_s = time.monotonic() + self._drain_s
            self.config.encoded_headers.append(_LAST_ANSWER)
            self.server_state.default_headers.append(_LAST_ANSWER)
        else:  # the second time is meant
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._closes_at_s is not None and time.monotonic() >= self._closes_at_s:
            self.should_exit = True
        return await super().on_tick(counter)


def listen(host: str, port: int, setting: str, *, shared: bool = False) -> list[socket.socket]:
    """A socket for each address of the host. Opened before anything starts, so that a port that
    is taken costs nothing but a sentence. Shared: other processes may listen there, too."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(one := socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
    except (OSError, OverflowError) as error:
        for one in sockets:
            one.close()
        raise CannotListenError(
            f"{setting}={port}: cannot listen on {host}:{port} ({error}); choose another port or "
            "end what holds it"
        ) from None
    return sockets
