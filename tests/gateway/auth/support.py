"""Credentials for tests: who they are of, and what their owner sends."""

import hmac
from typing import NamedTuple

from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, Credentials
from gateway.auth.token import Token, make_token


class Given(NamedTuple):
    token: Token
    credential: Credential

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token.text}"}


def given(caller: Caller, not_after_ms: int | None = None) -> Given:
    token = make_token()
    return Given(token, Credential(caller, "token", token.proof, not_after_ms))


def device(device_id: str, tenant: str = "") -> Given:
    return given(Caller("device", tenant, device_id))


def table(*known: Given) -> Credentials:
    credentials = Credentials()
    credentials.replace({one.token.key_id.encode(): one.credential for one in known})
    return credentials


def signature_of(
    secret: bytes,
    method: str,
    target: bytes,
    ts: bytes,
    nonce: bytes,
    body_sha256: bytes,
    content_type: bytes = b"",
    idempotency_key: bytes = b"",
) -> bytes:
    """As a device makes it from the documents, without the gateway's own code."""
    lines = (method.encode(), target, ts, nonce, body_sha256, content_type, idempotency_key)
    return hmac.new(secret, b"\n".join(lines), "sha256").hexdigest().encode()
