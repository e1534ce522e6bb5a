"""Which addresses a request may go to: those of the open internet. Pure.

Whoever may add a hook chooses where this machine sends requests, and so could have it ask what only
it can reach: services of its own network, or of its cloud (169.254.169.254). Python's `is_global`
alone is not enough: it takes `64:ff9b::a9fe:a9fe`, `2002:7f00:1::1` and `fec0::1` for open.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

# which `is_global` takes for open: site-local, what a network uses of NAT64 for itself, IETF's own
# (a cloud has its metadata there), relays of 6to4
_LOCAL = (
    *(IPv6Network("fec0::/10"), IPv6Network("64:ff9b:1::/48")),
    *(IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24")),
)
# NAT64, IPv4-compatible, IPv4-translated (RFC 2765)
_ENDS_IN_IPV4 = (
    IPv6Network("64:ff9b::/96"),
    IPv6Network("::/96"),
    IPv6Network("::ffff:0:0:0/96"),
)
_HOW = "HEADRACE_HOOKS_HOSTS_ALLOWED may name it"


def why_not_url(url: str, allowed: Collection[str] = ()) -> str | None:
    """What of it cannot be, before its name is looked up. `allowed`: hosts that may be in this
    network, and be asked without TLS."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"it is no URL: {error}"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "it has characters that no URL has: write them percent-encoded"
    if parts.scheme not in ("http", "https") or not host:
        return "it must begin with https:// and name a host"
    if "@" in parts.netloc:
        return "it names a user: whoever reads the log would see the password; sign instead"
    if parts.fragment:
        return "it has a fragment (#…), which no server gets to see"
    if host in allowed:
        return None
    if parts.scheme != "https":
        return f"it must begin with https://, unless {host} is one of HEADRACE_HOOKS_HOSTS_ALLOWED"
    if "%" in host:
        return "its host has a zone or an escape"
    try:
        return why_not_address(host)
    except ValueError:
        pass
    last = host.rstrip(".").rpartition(".")[2]
    if last.isdigit() or last.startswith("0x"):  # as inet_aton reads it: 2130706433, 0x7f.1, 0177.1
        return f"its host {host} is an address in a form that hides which: write it as usual"
    if last in ("localhost", "local", "internal"):
        return f"its host {host} is of this network ({_HOW})"
    return None


def why_not_address(address: str) -> str | None:
    """ValueError where it is none."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.scope_id is not None:
        return f"{address} is of one network alone"
    if any(_is_inside(one) for one in (found, *_inner(found))):
        return f"{address} is no address of the open internet ({_HOW})"
    return None


def _is_inside(one: IPv4Address | IPv6Address) -> bool:
    return not one.is_global or one.is_multicast or any(one in network for network in _LOCAL)


def _inner(found: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """The addresses that one leads on to."""
    if isinstance(found, IPv4Address):
        return []
    inner = [one for one in (found.ipv4_mapped, found.sixtofour) if one is not None]
    inner += found.teredo or ()
    if any(found in network for network in _ENDS_IN_IPV4):
        inner.append(IPv4Address(int(found) & 0xFFFF_FFFF))
    return inner
