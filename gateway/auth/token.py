"""`Authorization: Bearer hr_<key id>_<secret>`, checked against the sha256 of the secret.

One hash is enough: a secret is 256 random bits, so there is nothing to guess.
"""

import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from gateway.auth.credentials import Credential, Credentials

PREFIX = b"hr_"
_RIGHT_MOST = 10_000


class Token(NamedTuple):
    key_id: str
    text: str  # what its owner sends, shown once
    proof: bytes


def make_token() -> Token:
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    text = f"{PREFIX.decode()}{key_id}_{secret}"
    return Token(key_id, text, sha256(secret.encode()).digest())


def key_id_of(token: str) -> str:
    return token.removeprefix(PREFIX.decode()).partition("_")[0]


class Tokens:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._right: dict[bytes, Credential] = {}
        self._edition = credentials.edition

    def check(self, token: bytes, now_ms: int) -> Credential | None:
        """The same work for each that is not right, whether the key id is known or not."""
        if self._edition != self._credentials.edition or len(self._right) >= _RIGHT_MOST:
            self._right, self._edition = {}, self._credentials.edition
        right = self._right.get(token)
        if right is not None and right.holds(now_ms):
            return right
        key_id, _, secret = token.removeprefix(PREFIX).partition(b"_")
        known = self._credentials.find("token", key_id)
        is_it = compare_digest(sha256(secret).digest(), known.proof)
        if not (is_it and known.holds(now_ms)):
            return None
        self._right[token] = known
        return known
