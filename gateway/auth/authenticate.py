"""Who is asking? The one entry point: method, target and headers of a request -> its caller.

Nothing else of a request is looked at: not the Host, not the body, no decoded or joined path. What
the connection itself has proved comes beside them.
"""

import time
from typing import Protocol

from starlette.types import Scope

from gateway.auth.caller import ANYONE, Caller
from gateway.auth.credentials import Credentials
from gateway.auth.json_web_token import JsonWebTokens
from gateway.auth.mtls import Revoked
from gateway.auth.signature import SCHEME, Signatures
from gateway.auth.token import PREFIX, Tokens
from gateway.http.message import ByName, Certified
from gateway.http.problems import Problem

_BEARER = b"bearer"


class Authenticator(Protocol):
    def is_asking(
        self, method: str, target: bytes, headers: ByName, certified: Certified | None = None
    ) -> Caller: ...


class NoAuthentication:
    """Nobody is asked."""

    def is_asking(self, *_: object) -> Caller:
        return ANYONE


class CredentialAuthenticator:
    """Who has a credential. Problem for all others, the same for each of them.

    An operator's token is good in every mode: what scrapes or probes a gateway signs no requests.
    """

    def __init__(
        self,
        credentials: Credentials,
        tokens: bool = True,
        signatures: Signatures | None = None,
        tokens_of_others: JsonWebTokens | None = None,
        revoked: Revoked | None = None,
    ) -> None:
        self._own_tokens = Tokens(credentials)
        self._tokens = tokens
        self._signatures = signatures
        self._tokens_of_others = tokens_of_others
        self._revoked = revoked
        self._scheme = "Bearer" if tokens or tokens_of_others else "Headrace-HMAC"

    def is_asking(
        self, method: str, target: bytes, headers: ByName, certified: Certified | None = None
    ) -> Caller:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        scheme, now_ms = scheme.lower(), time.time_ns() // 1_000_000
        caller: Caller | None
        if certified is not None and self._revoked is not None:  # no header says otherwise
            holds = now_ms < certified.not_after_ms and not self._revoked.has(certified)
            caller = Caller("device", certified.tenant, certified.device) if holds else None
        elif scheme == SCHEME and self._signatures is not None:
            caller = self._signatures.check(method, target, headers, given, now_ms)
        elif (
            scheme == _BEARER
            and self._tokens_of_others is not None
            and not given.startswith(PREFIX)
        ):
            caller = self._tokens_of_others.check(given, now_ms)
        else:
            caller = self._token(given if scheme == _BEARER else b"", now_ms)
        if caller is None:
            raise unauthenticated(method, self._scheme)
        return caller

    def _token(self, given: bytes, now_ms: int) -> Caller | None:
        found = self._own_tokens.check(given, now_ms)
        if found is None or not (self._tokens or found.caller.role == "operator"):
            return None
        return found.caller


def target_of(scope: Scope) -> bytes:
    """The path and query as they were sent."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def unauthenticated(method: str, scheme: str) -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "the Authorization header (or the certificate) is missing, or what it holds is unknown, "
        "wrong, used up, expired or revoked; the Date header of this answer is the gateway's clock",
        outcome="definite" if method == "POST" else None,
        headers={"www-authenticate": f'{scheme} realm="headrace"'},
    )
