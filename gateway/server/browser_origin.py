"""Where nobody is asked who they are, any page that a browser of this network shows could write:
by a POST across sites, or under a name of its own that it has pointed at this machine (DNS
rebinding). So requests come under a name that is known as the gateway's, and from no other page,
except where one was allowed to read."""

from functools import lru_cache

from gateway.http.client_address import address_of
from gateway.http.page_origins import PageOrigins
from gateway.http.problems import last_refusal
from shared.settings import GatewaySettings

_KNOWN_MAX = 1024  # clients name the same one again and again
_OTHERWISE = "or let it ask who is asking (HEADRACE_AUTH)"


class BrowserOrigin:
    def __init__(self, names: frozenset[str], pages: PageOrigins) -> None:
        self._names = names | {"localhost"}
        self._pages = pages
        self._judged = lru_cache(_KNOWN_MAX)(self._judge)

    def judge(self, host: bytes | None, origin: bytes | None, method: bytes, target: bytes) -> None:
        """Problem where a browser may have been made to ask; without Host it was none."""
        if origin is not None and self._pages.may_read(origin, method, target):
            origin = None
        self._judged(host, origin)

    def _judge(self, host: bytes | None, origin: bytes | None) -> None:
        named = (host or b"localhost").decode().lower()
        if not self._is_own(named):
            raise last_refusal(
                403,
                "foreign_host",
                "nobody is asked who they are here, so Host is an address, localhost or a name in "
                f"HEADRACE_HOSTS: add the one that you use, {_OTHERWISE}",
            )
        if origin is not None and origin.decode("latin-1").partition("://")[2].lower() != named:
            raise last_refusal(
                403,
                "foreign_origin",
                "nobody is asked who they are here, so no other site's page may ask: call the "
                "gateway from a program, name the page's origin in HEADRACE_CORS_ORIGINS if it is "
                f"to read states and events, {_OTHERWISE}",
            )

    def _is_own(self, host: str) -> bool:
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        return name in self._names or address_of(name) is not None


def browser_origin(settings: GatewaySettings) -> BrowserOrigin | None:
    """None where everybody is asked: a foreign page has no credential to send."""
    return (
        None
        if settings.ways_to_ask
        else BrowserOrigin(settings.host_names, PageOrigins(settings.page_origins))
    )
