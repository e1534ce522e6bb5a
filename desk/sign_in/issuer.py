"""An OpenID Connect provider as it tells of itself: its addresses, and the keys that it signs with.

Whoever wants to sign in makes the desk ask it, so what that may cost is bounded.
"""

import time
from collections.abc import Iterator, Mapping
from threading import BoundedSemaphore
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import jwt
import orjson

from shared.settings import is_loopback

_WITHIN_S = 10.0
_AT_ONCE = 4
_KNOWN_S = 3600.0  # how long what it says of itself is believed
_ANEW_S = 10.0  # not sooner are keys asked for again that a signature does not fit
_AWAY_S = 3.0  # not sooner is one asked again that did not answer
_BYTES_MAX = 1_000_000
_SAID_MAX = 200
# those of a pair of keys: with another one whoever knows the public key could sign
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
               "ES256", "ES384", "ES512", "EdDSA")  # fmt: skip


class SignInError(Exception):
    """Why nobody is signed in, in a sentence."""


class Document(NamedTuple):
    authorize: str
    token: str
    keys: str
    secret_in_body: bool


class Issuer:
    """SignInError where it does not answer, or not as it should."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = urlsplit(url).hostname or url
        self._asking = BoundedSemaphore(_AT_ONCE)
        self._document: tuple[Document, float] | None = None
        self._away: tuple[SignInError, float] | None = None
        self._keys: tuple[list[jwt.PyJWK], float] | None = None

    def document(self) -> Document:
        now_s = time.monotonic()
        if self._document is not None and now_s < self._document[1] + _KNOWN_S:
            return self._document[0]
        if self._away is not None and now_s < self._away[1] + _AWAY_S:
            raise SignInError(*self._away[0].args)
        try:
            found = self._described()
        except SignInError as error:
            self._away = error, time.monotonic()
            raise
        self._document = found, time.monotonic()
        return found

    def keys(self, key_id: str | None) -> Iterator[jwt.PyJWK]:
        """Those that a token may be signed with, the known ones first: providers change theirs, and
        a token need not name its key."""
        known = self._keys
        if known is not None and time.monotonic() < known[1] + _KNOWN_S:
            yield from _named(known[0], key_id)
            if time.monotonic() < known[1] + _ANEW_S:
                return
        rows = self.ask("GET", self.document().keys).get("keys")
        found = [key for row in listed(rows) if (key := _key_of(row)) is not None]
        self._keys = found, time.monotonic()
        yield from _named(found, key_id)

    def ask(self, method: str, url: str, **asked: Any) -> dict[str, Any]:
        if not self._asking.acquire(blocking=False):
            raise SignInError(f"too many ask {self.name} at once: begin again in some seconds")
        try:
            status, told = _asked(method, url, asked)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SignInError(f"{self.name} does not answer: {error or type(error)}") from error
        finally:
            self._asking.release()
        if not isinstance(told, dict):
            raise SignInError(f"{self.name} answers {status}, and no JSON object")
        if not 200 <= status < 300:
            said = str(told.get("error_description") or told.get("error") or "")[:_SAID_MAX]
            raise SignInError(f"{self.name} answers {status}: {said}")
        return told

    def _described(self) -> Document:
        told = self.ask("GET", f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        if told.get("issuer") != self.url:
            raise SignInError(f"{self.url} calls itself {told.get('issuer')!r}: set it as that")
        methods = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Document(
            _safe(told.get("authorization_endpoint")),
            _safe(told.get("token_endpoint")),
            _safe(told.get("jwks_uri")),
            "client_secret_basic" not in listed(methods),
        )


def _asked(method: str, url: str, asked: Mapping[str, Any]) -> tuple[int, Any]:
    until_s, headers = time.monotonic() + _WITHIN_S, {"accept": "application/json"}
    with httpx.stream(method, url, timeout=_WITHIN_S, headers=headers, **asked) as answer:
        body = b""
        for some in answer.iter_bytes():
            body += some
            if len(body) > _BYTES_MAX or time.monotonic() > until_s:
                return answer.status_code, None
    try:
        return answer.status_code, orjson.loads(body)
    except ValueError:
        return answer.status_code, None


def _safe(url: object) -> str:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        parts = urlsplit("")
    if parts.hostname and isinstance(url, str):
        is_near = parts.scheme == "http" and is_loopback(parts.hostname)
        if parts.scheme == "https" or is_near:
            return url
    raise SignInError(f"the provider names an address that is not https: {url!r}")


def _named(keys: list[jwt.PyJWK], key_id: str | None) -> list[jwt.PyJWK]:
    return [key for key in keys if key_id in (None, key.key_id)]


def _key_of(row: object) -> jwt.PyJWK | None:
    """None: of a kind that nobody here can use, or not to sign with."""
    if not isinstance(row, dict) or row.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(row)
    except Exception:  # whatever stands there: the other keys are good
        return None
    return key if key.algorithm_name in _ALGORITHMS else None


def listed(values: object) -> list[object]:
    return values if isinstance(values, list) else []
