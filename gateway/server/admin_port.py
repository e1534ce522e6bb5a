"""A port of its own for what devices have no business with."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence

import uvicorn
from fastapi import FastAPI

from gateway.node.node import Node
from gateway.server.server import server_config
from shared.settings import GatewaySettings


class AdminPort:
    """In the gateway's event loop, the last part of its background: it starts after all others
    and stops when the last POST was answered."""

    def __init__(
        self,
        app: FastAPI,
        settings: GatewaySettings,
        sockets: Sequence[socket.socket],
        node: Node,
    ) -> None:
        config = server_config(app, settings, node)
        config.lifespan = "off"
        self._server = _Server(config)
        self._sockets = [*sockets]
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._serving = asyncio.create_task(self._server.serve(self._sockets))

    async def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        if self._serving is not None:
            await asyncio.wait((self._serving,))


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are for the main port's server, which ends this one
