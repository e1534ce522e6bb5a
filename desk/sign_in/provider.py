"""OpenID Connect, as the desk needs it: the browser goes to the provider and comes back with a
code, for which the desk gets an ID token that says who it is (authorization code flow with PKCE).

What the token says counts if the provider's key has signed it for this desk and this sign-in.
"""

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

import httpx
import jwt
from jwt.utils import base64url_encode

from desk.sign_in.sessions import Identity
from gateway.auth.caller import May
from shared.settings import is_loopback
from shared.settings.desk import ANYBODY, SignIn

_WITHIN_S = 10.0
_KNOWN_S = 3600.0  # how long what the provider says of itself is believed
_LEEWAY_S = 30
_BYTES_MAX = 1_000_000
# those of a pair of keys: with another one whoever knows the public key could sign
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
               "ES256", "ES384", "ES512", "EdDSA")  # fmt: skip
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_RIGHTS: tuple[May, ...] = ("administer", "operate", "look")
_NO_NAME = re.compile(r"[^\x21-\x7e]+")
_NAME_MAX = 200


class SignInError(Exception):
    """Why nobody is signed in, in a sentence."""


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


class _Known(NamedTuple):
    """Of the provider, by itself."""

    authorize: str
    token: str
    keys: str
    secret_in_body: bool
    until_s: float


class Provider:
    def __init__(self, settings: SignIn) -> None:
        self._settings = settings
        self._back_at = f"{settings.desk_url}/login/done"
        self._known: _Known | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}

    @property
    def name(self) -> str:
        return urlsplit(self._settings.issuer).hostname or self._settings.issuer

    def address(self, begun: Begun) -> str:
        """Where the browser goes to. SignInError where the provider is away."""
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
        address = self._provider().authorize
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    def redeem(self, begun: Begun, came_back: Mapping[str, str]) -> Identity:
        """SignInError where it is not this sign-in that comes back, or nobody who may come in."""
        if not _same(came_back.get("state", ""), begun.state):
            raise SignInError("this is not the sign-in that this browser began last: begin again")
        if came_back.get("iss", self._settings.issuer) != self._settings.issuer:
            raise SignInError("another provider answers than the one that was asked")
        if error := came_back.get("error"):
            said = came_back.get("error_description") or error
            raise SignInError(f"{self.name} says: {said[:_NAME_MAX]}")
        claims = self._claims(self._token(begun, came_back.get("code", "")))
        if not _same(str(claims.get("nonce")), begun.nonce):
            raise SignInError(f"{self.name} has answered another sign-in")
        return self._identity(claims)

    def _token(self, begun: Begun, code: str) -> str:
        known, settings = self._provider(), self._settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back_at,
            "code_verifier": begun.verifier,
        }
        auth = None
        if settings.client_secret and not known.secret_in_body:
            auth = (quote(settings.client_id, safe=""), quote(settings.client_secret, safe=""))
        else:
            fields["client_id"] = settings.client_id
            if settings.client_secret:
                fields["client_secret"] = settings.client_secret
        told = self._ask("POST", known.token, data=fields, auth=auth)
        token = told.get("id_token")
        if not isinstance(token, str):
            raise SignInError(f"{self.name} gives no ID token: the scopes need `openid`")
        return token

    def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            if key.algorithm_name not in _ALGORITHMS:
                raise jwt.InvalidAlgorithmError("no key of a pair")
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name],
                audience=settings.client_id,
                issuer=settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": _REQUIRED},
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise SignInError(f"{self.name}'s ID token does not hold: {error}") from error
        if claims.get("azp", settings.client_id) != settings.client_id:
            raise SignInError(f"{self.name}'s ID token is for another client")
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        given = claims.get("email") if claims.get("email_verified", True) is True else None
        said = str(given or claims.get("preferred_username") or claims["sub"])
        name = _NO_NAME.sub("?", said)[:_NAME_MAX]
        values = claims.get(self._settings.claim, ())
        groups = {values} if isinstance(values, str) else {*filter(_is_text, _listed(values))}
        roles = self._settings.roles
        granted = {roles[group] for group in (*groups, ANYBODY) if group in roles}
        for may in _RIGHTS:
            if may in granted:
                return Identity(name, may)
        raise SignInError(
            f"{name} is known to {self.name}, and in none of the groups that may come in "
            f"(claim {self._settings.claim!r})"
        )

    def _key(self, key_id: object) -> jwt.PyJWK:
        """Asked for again where it is unknown: providers change their keys."""
        name = key_id if isinstance(key_id, str) else None
        if name not in self._keys:
            rows = self._ask("GET", self._provider().keys).get("keys")
            known = [_key_of(row) for row in _listed(rows) if isinstance(row, dict)]
            self._keys = {key.key_id: key for key in known if key is not None}
            if name is None and len(self._keys) == 1:  # a token need not name the only one
                self._keys[None] = next(iter(self._keys.values()))
        if name not in self._keys:
            raise SignInError(f"{self.name} has signed with a key that it does not publish")
        return self._keys[name]

    def _provider(self) -> _Known:
        known = self._known
        if known is None or time.monotonic() >= known.until_s:
            issuer = self._settings.issuer
            told = self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if told.get("issuer") != issuer:
                raise SignInError(f"{issuer} calls itself {told.get('issuer')!r}: set it as that")
            methods = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            known = _Known(
                _safe(told.get("authorization_endpoint")),
                _safe(told.get("token_endpoint")),
                _safe(told.get("jwks_uri")),
                "client_secret_basic" not in _listed(methods),
                time.monotonic() + _KNOWN_S,
            )
            self._known = known
        return known

    def _ask(self, method: str, url: str, **asked: Any) -> dict[str, Any]:
        try:
            answer = httpx.request(
                method, url, timeout=_WITHIN_S, headers={"accept": "application/json"}, **asked
            )
            told = answer.json() if len(answer.content) <= _BYTES_MAX else None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SignInError(f"{self.name} does not answer: {error or type(error)}") from error
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise SignInError(f"{self.name} answers {answer.status_code}, and no JSON object")
        if not answer.is_success:
            said = str(told.get("error_description") or told.get("error") or "")[:_NAME_MAX]
            raise SignInError(f"{self.name} answers {answer.status_code}: {said}")
        return told


def _same(given: str, known: str) -> bool:
    return compare_digest(given.encode(errors="replace"), known.encode())


def _safe(url: object) -> str:
    if isinstance(url, str):
        parts = urlsplit(url)
        is_near = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if parts.scheme == "https" or is_near:
            return url
    raise SignInError(f"the provider names an address that is not https: {url!r}")


def _key_of(row: dict[str, Any]) -> jwt.PyJWK | None:
    """None: of a kind that nobody here can use, or not to sign with."""
    if row.get("use", "sig") != "sig":
        return None
    try:
        return jwt.PyJWK(row)
    except (jwt.PyJWTError, ValueError):
        return None


def _listed(values: object) -> list[object]:
    return values if isinstance(values, list) else []


def _is_text(value: object) -> bool:
    return isinstance(value, str)
