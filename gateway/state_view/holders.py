"""Which gateways hold which part of the states. Pure: who knows the same gateways says the same.

A part is a partition of a state topic. One that comes or goes moves its own parts and no others.
"""

from collections.abc import Iterable
from hashlib import sha256


def ranked(gateways: Iterable[str], part: str) -> list[str]:
    """Those that are to hold it first."""
    return sorted(gateways, key=lambda url: sha256(f"{part} {url}".encode()).digest())
