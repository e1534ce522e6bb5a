"""OpenID Connect, as the desk needs it: the browser goes to the provider and comes back with a
code, for which the desk gets an ID token that says who it is (authorization code flow with PKCE).

What the token says counts if the provider's key has signed it for this desk and this sign-in.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any, NamedTuple, Self, TypeGuard
from urllib.parse import quote, urlencode

import jwt
from jwt.utils import base64url_encode

from desk.sign_in.issuer import Issuer, SignInError, listed
from desk.sign_in.sessions import Identity
from gateway.auth.caller import May
from shared.settings.desk import ANYBODY, SignIn

_LEEWAY_S = 30
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_RIGHTS: tuple[May, ...] = ("administer", "operate", "look")
_NO_NAME = re.compile(r"[^\x20-\x7e]+")
_NAME_MAX = 100
_SAID_MAX = 200


class Begun(NamedTuple):
    """What only the browser knows that began, and what must come back to it."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> Self:
        return cls(token_urlsafe(24), token_urlsafe(24), token_urlsafe(48))

    def text(self) -> str:
        return ".".join(self)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        parts = text.split(".")
        return cls(*parts) if len(parts) == len(cls._fields) and all(parts) else None

    def is_of(self, came_back: Mapping[str, str]) -> bool:
        return same(came_back.get("state", ""), self.state)


class Provider:
    """SignInError where it does not answer."""

    def __init__(self, settings: SignIn) -> None:
        self._settings = settings
        self._issuer = Issuer(settings.issuer)
        self._back_at = f"{settings.desk_url}/login/done"

    def address(self, begun: Begun) -> str:
        """Where the browser goes to."""
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._back_at,
            "scope": self._settings.scopes,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": base64url_encode(sha256(begun.verifier.encode()).digest()).decode(),
            "code_challenge_method": "S256",
        }
        address = self._issuer.document().authorize
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    def redeem(self, begun: Begun, came_back: Mapping[str, str]) -> Identity:
        """SignInError where it is not this sign-in that comes back, or nobody who may come in."""
        name = self._issuer.name
        if not begun.is_of(came_back):
            raise SignInError("this is not the sign-in that this browser began last: begin again")
        if came_back.get("iss", self._issuer.url) != self._issuer.url:
            raise SignInError("another provider answers than the one that was asked")
        if error := came_back.get("error"):
            said = came_back.get("error_description") or error
            raise SignInError(f"{name} says: {said[:_SAID_MAX]}")
        claims = self._claims(self._token(begun, came_back.get("code", "")))
        if not same(str(claims.get("nonce")), begun.nonce):
            raise SignInError(f"{name} has answered another sign-in")
        return self._identity(claims)

    def _token(self, begun: Begun, code: str) -> str:
        document, settings = self._issuer.document(), self._settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back_at,
            "code_verifier": begun.verifier,
        }
        auth = None
        if settings.client_secret and not document.secret_in_body:
            auth = (quote(settings.client_id, safe=""), quote(settings.client_secret, safe=""))
        else:
            fields["client_id"] = settings.client_id
            if settings.client_secret:
                fields["client_secret"] = settings.client_secret
        token = self._issuer.ask("POST", document.token, data=fields, auth=auth).get("id_token")
        if not isinstance(token, str):
            raise SignInError(f"{self._issuer.name} gives no ID token: the scopes need `openid`")
        return token

    def _claims(self, token: str) -> dict[str, Any]:
        name, client = self._issuer.name, self._settings.client_id
        try:
            claims = self._signed(token)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise SignInError(f"{name}'s ID token does not hold: {error}") from error
        if claims.get("azp", client) != client:
            raise SignInError(f"{name}'s ID token is for another client")
        return claims

    def _signed(self, token: str) -> dict[str, Any]:
        wrong: Exception = ValueError("it is signed with a key that is not published")
        for key in self._issuer.keys(jwt.get_unverified_header(token).get("kid")):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=[key.algorithm_name],
                    audience=self._settings.client_id,
                    issuer=self._issuer.url,
                    leeway=_LEEWAY_S,
                    options={"require": _REQUIRED},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError) as error:
                wrong = error  # another key may fit
            else:
                return claims
        raise wrong

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        email = claims.get("email") if claims.get("email_verified", True) is True else None
        given = email if _is_text(email) else claims.get("preferred_username")
        # people may choose what they are called, but not the provider's own name for them
        known = f"({self._issuer.name} {_plain(claims['sub'])})"
        name = f"{_plain(given)} {known}" if _is_text(given) else known
        values = claims.get(self._settings.claim, ())
        groups = {values} if _is_text(values) else {*filter(_is_text, listed(values))}
        roles = self._settings.roles
        granted = {roles[group] for group in (*groups, ANYBODY) if group in roles}
        for may in _RIGHTS:
            if may in granted:
                return Identity(name, may)
        raise SignInError(
            f"{name} is in none of the groups that may come in (claim {self._settings.claim!r})"
        )


def same(given: str, known: str) -> bool:
    return compare_digest(given.encode(errors="replace"), known.encode())


def _plain(text: str) -> str:
    return _NO_NAME.sub("?", text)[:_NAME_MAX]


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)
