"""Whose share of what is scarce, memory for bodies or event streams, a request counts against."""

from collections.abc import Hashable

from gateway.auth.caller import Caller
from gateway.http.client_address import ClientAddress
from gateway.http.message import Request


class Holders:
    def __init__(self, trusted_proxies: str) -> None:
        self._addresses = ClientAddress(trusted_proxies)

    def of(self, caller: Caller, request: Request) -> Hashable:
        """A credential's owner; where nobody is asked, an address."""
        if caller.role == "anyone":
            return self._addresses.of(request.address, request.headers)
        return caller.role, caller.tenant, caller.device
