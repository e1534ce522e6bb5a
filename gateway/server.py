"""uvicorn, set up the same way for each port, on sockets that are opened here."""

import math
import socket
from asyncio import Protocol
from functools import partial
from typing import cast

import uvicorn
from fastapi import FastAPI

from gateway.connections import Connections, affordable
from gateway.http_protocol import GatewayProtocol, Limits
from shared.settings import GatewaySettings


class CannotListenError(Exception):
    """In one sentence for the operator."""


def server_config(app: FastAPI, settings: GatewaySettings) -> uvicorn.Config:
    connections = Connections(
        affordable(settings.connections_max), settings.connections_per_address_max
    )
    protocol = partial(GatewayProtocol, Limits.of(settings), connections)
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=cast(type[Protocol], protocol),
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s),
    )


def listen(host: str, port: int, setting: str) -> list[socket.socket]:
    """A socket for each address of the host. Opened before anything starts, so that a port that
    is taken costs nothing but a sentence."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(one := socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
