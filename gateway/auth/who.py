"""Who is asking? The one entry point: method, target and headers of a request -> its caller.

Nothing else of a request is looked at: not the Host, not the body, no decoded or joined path.
"""

import time
from collections.abc import Iterable
from typing import Protocol

from starlette.types import Scope

from gateway.auth import token
from gateway.auth.caller import ANYONE, Caller
from gateway.auth.credentials import Credentials
from gateway.problems import Problem

Headers = Iterable[tuple[bytes, bytes]]
_BEARER = b"bearer"


class Who(Protocol):
    def is_asking(self, method: str, target: bytes, headers: Headers) -> Caller: ...


class Whoever:
    """Nobody is asked."""

    def is_asking(self, method: str, target: bytes, headers: Headers) -> Caller:  # noqa: ARG002
        return ANYONE


class Known:
    """Who has a credential. Problem for all others, the same for each of them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def is_asking(self, method: str, target: bytes, headers: Headers) -> Caller:  # noqa: ARG002
        scheme, _, given = _authorization(headers).partition(b" ")
        caller = self._bearer(given if scheme.lower() == _BEARER else b"")
        if caller is None:
            raise unauthenticated(method)
        return caller

    def _bearer(self, given: bytes) -> Caller | None:
        found = token.check(self._credentials, given, time.time_ns() // 1_000_000)
        return None if found is None else found.caller


def target_of(scope: Scope) -> bytes:
    """The path and query as they were sent."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def unauthenticated(method: str) -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "the Authorization header is missing, or what it holds is unknown, wrong, used up, expired "
        "or revoked; the Date header of this answer is the gateway's clock",
        outcome="definite" if method == "POST" else None,
        headers={"www-authenticate": 'Bearer realm="headrace"'},
    )


def _authorization(headers: Headers) -> bytes:
    """Nothing where there is none, or two that might say two things."""
    given = [value for name, value in headers if name == b"authorization"]
    return given[0] if len(given) == 1 else b""
