"""POSTs to URLs that users have named.

Each name is looked up once, all its addresses are judged, and the request goes to the very address
that was judged: a name that leads elsewhere at a second look-up leads nowhere here. The name stands
in the header Host and in TLS, whose certificate is checked for it. No redirect is followed, no
proxy of the environment is asked, and of an answer the first bytes alone are read.
"""

import asyncio
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

import httpcore
import httpx

from clients.web.connections import Connections
from shared.forwarding.address import why_not_address, why_not_url
from shared.forwarding.answer import Answer

_SAID_BYTES = 256  # of an answer, to be told
_LOOKED_UP_S = 30.0
_ORIGINS_MAX = 2_000


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int | None


class _Target(NamedTuple):
    origin: Origin
    host: bytes  # as the header says it
    server_name: str  # as TLS does
    path: bytes


class _Known:
    """An origin's address and its connections, which are nobody else's."""

    def __init__(self, address: str, connections: Connections) -> None:
        self.address = address
        self.connections = connections
        self.until_s = time.monotonic() + _LOOKED_UP_S


class RefusedError(Exception):
    """Nothing was sent: the URL leads to where nothing may be sent."""


class OpenInternet:
    """Sends requests in one event loop."""

    def __init__(self, hosts_allowed: Collection[str]) -> None:
        self._allowed = frozenset(hosts_allowed)
        self._tls = ssl.create_default_context()
        self._known: OrderedDict[Origin, _Known] = OrderedDict()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Answer:
        """It never fails: what went wrong is an answer without a status."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                status, said, retry_after = await self._post(url, headers, body)
        except TimeoutError:
            return Answer(None, _ms_since(began_s), f"it took longer than {timeout_s:g} s")
        except RefusedError as error:
            return Answer(None, _ms_since(began_s), f"not sent: {error}")
        except Exception as error:  # a fault of the client's own must not stop all other hooks
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            return Answer(None, _ms_since(began_s), said[:_SAID_BYTES])
        return Answer(status, _ms_since(began_s), said, retry_after)

    async def close(self) -> None:
        for known in self._known.values():
            await known.connections.aclose()

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str, str | None]:
        target = _target(url, self._allowed)
        known = await self._origin(target.origin)
        scheme, _, port = target.origin
        request = httpcore.Request(
            "POST",
            httpcore.URL(scheme=scheme, host=known.address, port=port, target=target.path),
            headers=[
                (b"host", target.host),
                (b"user-agent", b"headrace"),
                (b"accept", b"*/*"),
                (b"content-length", str(len(body)).encode()),
                *((name.encode(), value.encode("ascii")) for name, value in headers.items()),
            ],
            content=body,
            extensions={"sni_hostname": target.server_name},
        )
        answer, read = await known.connections.send(request)
        said = read[:_SAID_BYTES].decode(errors="replace")
        for name, value in answer.headers:
            if name.lower() == b"retry-after":
                return answer.status, said, value.decode(errors="replace")
        return answer.status, said, None

    async def _origin(self, origin: Origin) -> _Known:
        known, old = self._known.get(origin), None
        if known is None or time.monotonic() >= known.until_s:
            addresses = await self._looked_up(origin)
            known = self._known.get(origin)  # others may have looked it up meanwhile
            if known is not None and known.address in addresses:
                known.until_s = time.monotonic() + _LOOKED_UP_S
            else:
                old = known
                known = self._known[origin] = self._new(origin, addresses[0])
                if old is None and len(self._known) > _ORIGINS_MAX:
                    _, old = self._known.popitem(last=False)
        self._known.move_to_end(origin)
        if old is not None:
            await old.connections.aclose()
        return known

    def _new(self, origin: Origin, address: str) -> _Known:
        scheme, _, port = origin
        at = httpcore.URL(scheme=scheme, host=address, port=port, target="/").origin
        return _Known(address, Connections(at, self._tls))

    async def _looked_up(self, origin: Origin) -> list[str]:
        port = origin.port or {"http": 80, "https": 443}[origin.scheme]
        found = await asyncio.get_running_loop().getaddrinfo(
            origin.host, port, type=socket.SOCK_STREAM
        )
        addresses = [str(address[0]) for *_, address in found]
        if origin.host not in self._allowed:
            for address in addresses:  # all: which one is taken must not depend on luck
                if why_not := why_not_address(address):
                    raise RefusedError(f"{origin.host} leads to {why_not}")
        if not addresses:
            raise RefusedError(f"{origin.host} has no address")
        return addresses


@lru_cache(_ORIGINS_MAX)
def _target(url: str, allowed: frozenset[str]) -> _Target:
    if why_not := why_not_url(url, allowed):
        raise RefusedError(why_not)
    named = httpx.URL(url)
    origin = Origin(named.scheme, named.host, named.port)
    return _Target(origin, named.netloc, named.raw_host.decode("ascii"), named.raw_path)


def _ms_since(began_s: float) -> int:
    return int((time.monotonic() - began_s) * 1000)
