"""An OpenID Connect provider with one user, which may also lie."""

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from hmac import digest
from html import escape
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from shared.settings import GatewaySettings
from tests.gateway.support import serving

CLIENT, SECRET = "headrace desk", "s3cret:&"


class IdentityProvider:
    def __init__(self) -> None:
        self.url = ""
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.signs_with: Any = self.key
        self.header: dict[str, Any] = {"kid": "one"}
        self.algorithm = "RS256"
        self.claims: dict[str, Any] = {"email": "ann@example.org", "groups": ["ops"]}
        self.document: dict[str, Any] = {}
        self.asked: list[str] = []
        self.asks_first = False
        self.odd_keys: list[Any] = [{"kty": "new", "kid": "odd"}]
        self.refuses: dict[str, str] = {}
        self._codes: dict[str, Mapping[str, str]] = {}
        self.app = FastAPI()
        self.app.get("/.well-known/openid-configuration")(self.describe)
        self.app.get("/keys")(self.keys)
        self.app.get("/authorize")(self.authorize)
        self.app.post("/token")(self.token)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def describe(self) -> Response:
        self.asked.append("document")
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return JSONResponse({**told, **self.document})

    def keys(self) -> Response:
        self.asked.append("keys")
        row = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        own = {**row, "kid": "one", "alg": "RS256", "use": "sig"}
        return JSONResponse({"keys": [*self.odd_keys, own]})

    def authorize(self, request: Request) -> Response:
        """The user is known at once, and agrees; or has to say so first."""
        asked = dict(request.query_params)
        back = {"state": asked["state"], "iss": self.url}
        if self.refuses:
            back |= self.refuses
        else:
            code = f"code-{len(self._codes)}"
            self._codes[code] = asked
            back["code"] = code
        address = f"{asked['redirect_uri']}?{urlencode(back)}"
        if self.asks_first:
            return HTMLResponse(f'<h1>Is it you?</h1><a href="{escape(address)}">Yes</a>')
        return RedirectResponse(address, 303)

    async def token(self, request: Request) -> Response:
        sent = parse_qs((await request.body()).decode())
        fields = {name: one for name, (one, *_) in sent.items()}
        asked = self._codes.pop(fields["code"], None)
        given = request.headers.get("authorization", "").removeprefix("Basic ")
        client, _, secret = b64decode(given).decode().partition(":")
        proof = urlsafe_b64encode(sha256(fields["code_verifier"].encode()).digest()).rstrip(b"=")
        if (
            asked is None
            or (unquote(client), unquote(secret)) != (CLIENT, SECRET)
            or proof.decode() != asked["code_challenge"]
            or fields["redirect_uri"] != asked["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "u-1",
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        told = {name: one for name, one in claims.items() if one is not None}
        return JSONResponse({"id_token": self.signed(told), "token_type": "Bearer"})

    def signed(self, claims: dict[str, Any]) -> str:
        if self.algorithm != "HS256":
            return jwt.encode(
                claims, self.signs_with, algorithm=self.algorithm, headers=self.header
            )
        # by hand: the library would not sign with a public key
        header = {"typ": "JWT", "alg": self.algorithm, **self.header}
        parts = [
            urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, claims)
        ]
        seal = digest(self.signs_with, b".".join(parts), "sha256")
        return b".".join((*parts, urlsafe_b64encode(seal).rstrip(b"="))).decode()


@contextmanager
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    with serving(made.app, GatewaySettings()) as served:
        made.url = served.url
        yield made
