"""From which address a request comes."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from shared.settings import networks

Headers = Iterable[tuple[bytes, bytes]]

_KNOWN_MAX = 65_536
_V6_PREFIX = 64  # one subscriber's: to count each of its addresses would count none


class ClientAddress:
    """The peer's, or, behind proxies that the operator has listed, the last one in X-Forwarded-For
    that is not theirs: what stands before it may have been made up."""

    def __init__(self, trusted_proxies: str) -> None:
        self._trusted = networks(trusted_proxies)
        self._is_trusted = lru_cache(_KNOWN_MAX)(self._look_up)

    def of(self, peer: str, headers: Headers) -> str:
        found = peer
        if self._trusted and self._is_trusted(peer):
            for hop in reversed(_forwarded_for(headers)):
                if address_of(hop) is None:
                    break
                found = hop
                if not self._is_trusted(hop):
                    break
        return _subscriber(found)

    def _look_up(self, host: str) -> bool:
        address = address_of(host)
        return address is not None and any(address in network for network in self._trusted)


def _forwarded_for(headers: Headers) -> list[str]:
    given = [value for name, value in headers if name == b"x-forwarded-for"]
    return [hop.strip() for hop in b",".join(given).decode("latin-1").split(",")]


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # a socket that takes both kinds shows the old one inside the new one
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(_KNOWN_MAX)
def _subscriber(text: str) -> str:
    address = address_of(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((address.packed, _V6_PREFIX), strict=False))
    return text if address is None else str(address)
