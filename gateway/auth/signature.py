"""`Authorization: Headrace-HMAC key=…, ts=…, nonce=…, body=…, signature=…`.

The signature is the HMAC-SHA256, in hex, under the key's secret, of seven lines, joined by
newlines:

    method, path and query as sent, ts, nonce, body, Content-Type, Idempotency-Key

`body` is the sha256 of the body in hex: so a wrong signature is refused before the body is read.
The last two lines are empty where there is no such header. They decide over a payload's event id: a
request that was caught and sent again with others would have a second effect.
"""

import logging
import re
import secrets
import string
from functools import lru_cache
from hmac import compare_digest
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from gateway.auth.caller import Caller, Signed
from gateway.auth.credentials import NOBODY, Credentials
from gateway.auth.nonces import Nonces
from gateway.http.message import ByName
from shared.settings.secret_box import SecretBox

log = logging.getLogger(__name__)

SCHEME = b"headrace-hmac"
SKEW_MAX_S = 300
_SKEW_MAX_MS = SKEW_MAX_S * 1000
_FORM = re.compile(
    rb"key=([0-9a-f]{12}), ?ts=(\d{1,12}), ?nonce=([A-Za-z0-9_-]{8,64}), ?body=([0-9a-f]{64}), ?"
    rb"signature=([0-9a-f]{64})"
)
# those of the scheme's name and of a value in this form, in either case, and no others
FORM_BYTES = (string.ascii_letters + string.digits + "_-=, ").encode()
_NOBODY_ID = b"nobody"
_READY_MOST = 10_000


class SigningKey(NamedTuple):
    key_id: str
    secret: str  # its text is the key, shown once
    proof: bytes


def make_signing_key(box: SecretBox) -> SigningKey:
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    return SigningKey(key_id, secret, box.seal(key_id.encode(), secret.encode()))


def _signed(key: HMAC, method: str, *lines: bytes) -> bytes:
    signing = key.copy()
    signing.update(b"\n".join((method.encode(), *lines)))
    return signing.finalize().hex().encode()


class Signatures:
    def __init__(self, credentials: Credentials, box: SecretBox, nonces: Nonces) -> None:
        self._credentials = credentials
        self._box = box
        # a key that is ready to sign is kept: to open its secret takes longer than all else here
        self._key = lru_cache(_READY_MOST)(self._open)
        self._nonces = nonces
        self._told: set[bytes] = set()
        self._of_nobody = box.seal(_NOBODY_ID, secrets.token_hex(32).encode())

    def check(
        self,
        method: str,
        target: bytes,
        headers: ByName,
        given: bytes,
        now_ms: int,
    ) -> Caller | None:
        """The same work whether the key id is known or not, and whatever else may be wrong."""
        form = _FORM.fullmatch(given)
        key_id, ts, nonce, body_sha256, signature = form.groups() if form else _FORMLESS
        known = self._credentials.find("hmac", key_id)
        place = (_NOBODY_ID, self._of_nobody) if known is NOBODY else (key_id, known.proof)
        key = self._key(*place)
        right = _signed(
            key or _KEY_OF_NOBODY,
            method,
            target,
            ts,
            nonce,
            body_sha256,
            headers.get(b"content-type", b""),
            headers.get(b"idempotency-key", b""),
        )
        is_it = compare_digest(right, signature)
        if key is None and key_id not in self._told:
            self._told.add(key_id)
            log.error(
                "credential %s was not sealed with this gateway's HEADRACE_CREDENTIALS_KEY: it "
                "lets nobody in; add another one with this key",
                key_id.decode(),
            )
        if not is_it or key is None:
            return None
        signed_ms = int(ts) * 1000
        if not known.holds(now_ms) or abs(now_ms - signed_ms) > _SKEW_MAX_MS:
            return None
        if not self._nonces.is_first(key_id, nonce, signed_ms + _SKEW_MAX_MS, now_ms):
            return None
        request = b"%b %b %b" % (key_id, ts, nonce)
        signed = Signed(request.decode(), body_sha256.decode())
        return known.caller._replace(signed=signed)

    def _open(self, key_id: bytes, sealed: bytes) -> HMAC | None:
        secret = self._box.open(key_id, sealed)
        return None if secret is None else HMAC(secret, SHA256())


_KEY_OF_NOBODY = HMAC(_NOBODY_ID, SHA256())
_FORMLESS = (b"", b"0", b"", b"0" * 64, b"0" * 64)
