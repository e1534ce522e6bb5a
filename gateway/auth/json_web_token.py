"""`Authorization: Bearer <JWT>`: who it is says the token, signed by a key of a fixed set.

Its claims `tenant`, `role` and, of a device, `device` are the caller's; `may` says what an operator
may at the desk. `iss`, `aud` and `exp` have to be there, too.
"""

import re
from typing import Any

import jwt

from gateway.auth.caller import Caller
from gateway.auth.credentials import refuse_unfit
from gateway.auth.jwt_keys import JwtKeys

_LEEWAY_S = 30  # between the issuer's clock and the gateway's
# strictly: a decoder that passes over what is no base64 gives a token many forms
_FORM = re.compile(rb"(?=.{1,8192}\Z)[\w-]+\.[\w-]+\.[\w-]+")
_CHECKED_MOST = 10_000
_REQUIRED = ["exp", "iss", "aud", "tenant", "role"]


class JsonWebTokens:
    def __init__(self, keys: JwtKeys, issuer: str, audience: str) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._checked: dict[bytes, tuple[Caller, int]] = {}
        self._checked_with = keys.by_id

    def check(self, given: bytes, now_ms: int) -> Caller | None:
        # a signature takes a hundred times as long as this look, and a token is sent often
        if self._checked_with is not self._keys.by_id or len(self._checked) >= _CHECKED_MOST:
            self._checked, self._checked_with = {}, self._keys.by_id
        checked = self._checked.get(given)
        if checked is not None and now_ms < checked[1]:
            return checked[0]
        if not _FORM.fullmatch(given):
            return None
        try:
            claims = self._claims(given)
            caller = _caller(claims)
            self._checked[given] = caller, (int(claims["exp"]) + _LEEWAY_S) * 1000
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return caller

    def _claims(self, given: bytes) -> dict[str, Any]:
        header = jwt.get_unverified_header(given)
        key_id = header.get("kid")
        is_name = key_id is None or isinstance(key_id, str)
        known = self._checked_with.get(key_id) if is_name else None
        if known is None:
            raise ValueError("no key of ours")
        claims: dict[str, Any] = jwt.decode(
            given,
            known.key,
            algorithms=[known.algorithm],
            audience=self._audience,
            issuer=self._issuer,
            leeway=_LEEWAY_S,
            options={"require": _REQUIRED},
        )
        return claims


def _caller(claims: dict[str, Any]) -> Caller:
    caller = Caller(
        claims["role"],
        claims["tenant"],
        claims.get("device"),
        claims.get("all_tenants", False),
        may=claims.get("may", "administer"),
    )
    refuse_unfit(caller)
    return caller
