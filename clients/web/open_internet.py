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
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import httpx

from shared.forwarding.address import why_not_address, why_not_url
from shared.forwarding.answer import Answer

_SAID_BYTES = 256  # of an answer, to be told
_READ_BYTES_MAX = 64 * 1024  # a longer one costs its connection
_LOOKED_UP_S = 30.0
_ORIGINS_MAX = 2_000
_CLOSED_AFTER_S = 60.0  # longer than any request may take
_CONNECTIONS = httpx.Limits(max_connections=256, max_keepalive_connections=16, keepalive_expiry=30)


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int | None


class _Known:
    """An origin's address and its connections, which are nobody else's."""

    def __init__(self, address: str, client: httpx.AsyncClient) -> None:
        self.address = address
        self.client = client
        self.until_s = time.monotonic() + _LOOKED_UP_S


class RefusedError(Exception):
    """Nothing was sent: the URL leads to where nothing may be sent."""


class OpenInternet:
    """Of one event loop."""

    def __init__(self, hosts_allowed: Collection[str]) -> None:
        self._allowed = hosts_allowed
        self._tls = ssl.create_default_context()
        self._known: OrderedDict[Origin, _Known] = OrderedDict()
        self._closing: dict[asyncio.Task[None], _Known] = {}

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
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            return Answer(None, _ms_since(began_s), said[:_SAID_BYTES])
        return Answer(status, _ms_since(began_s), said, retry_after)

    async def close(self) -> None:
        for closing in self._closing:
            closing.cancel()
        for known in (*self._known.values(), *self._closing.values()):
            await known.client.aclose()

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str, str | None]:
        if why_not := why_not_url(url, self._allowed):
            raise RefusedError(why_not)
        named = httpx.URL(url)
        known = await self._origin(Origin(named.scheme, named.host, named.port))
        request = known.client.build_request(
            "POST",
            named.copy_with(host=known.address),
            content=body,
            headers={**headers, "host": named.netloc.decode("ascii")},
            extensions={"sni_hostname": named.raw_host.decode("ascii")},
        )
        answer = await known.client.send(request, stream=True)
        try:
            read = b""
            async for chunk in answer.aiter_raw(_READ_BYTES_MAX):
                read += chunk
                if len(read) > _READ_BYTES_MAX:
                    break
        finally:
            await answer.aclose()
        said = read[:_SAID_BYTES].decode(errors="replace")
        return answer.status_code, said, answer.headers.get("retry-after")

    async def _origin(self, origin: Origin) -> _Known:
        known = self._known.get(origin)
        if known is None or time.monotonic() >= known.until_s:
            addresses = await self._looked_up(origin)
            known = self._known.get(origin)  # others may have looked it up meanwhile
            if known is not None and known.address in addresses:
                known.until_s = time.monotonic() + _LOOKED_UP_S
            else:
                if known is not None:
                    self._close_later(known)
                known = self._known[origin] = _Known(addresses[0], self._client())
                if len(self._known) > _ORIGINS_MAX:
                    self._close_later(self._known.popitem(last=False)[1])
        self._known.move_to_end(origin)
        return known

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            verify=self._tls,
            trust_env=False,
            follow_redirects=False,
            limits=_CONNECTIONS,
            timeout=None,  # all of it together has one
            headers={"user-agent": "headrace"},
            # a hook's cookie would go to those of others, whose server is the same
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    def _close_later(self, known: _Known) -> None:
        """It may have requests under way."""

        async def close() -> None:
            await asyncio.sleep(_CLOSED_AFTER_S)
            await known.client.aclose()

        closing = asyncio.create_task(close())
        self._closing[closing] = known
        closing.add_done_callback(lambda done: self._closing.pop(done, None))

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


def _ms_since(began_s: float) -> int:
    return int((time.monotonic() - began_s) * 1000)
