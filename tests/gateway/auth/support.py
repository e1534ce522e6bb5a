"""Credentials for tests: who they are of, and what their owner sends."""

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
