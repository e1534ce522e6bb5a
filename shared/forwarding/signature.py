"""How a request to a hook is signed: by Standard Webhooks, so that any library of theirs checks it.
Pure."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
_BYTES = 32
_BYTES_MIN, _BYTES_MAX = 24, 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """ValueError, which does not show it, where it is none."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not _BYTES_MIN <= len(key) <= _BYTES_MAX:
        raise ValueError(
            f"a secret is {PREFIX} and then {_BYTES_MIN} to {_BYTES_MAX} bytes in base64"
        )
    return key


def signed(id_: str, at_s: int, body: bytes, keys: Iterable[bytes]) -> dict[str, str]:
    """The headers. While a secret is being changed there are two keys, and a signature of each."""
    content = f"{id_}.{at_s}.".encode() + body
    digests = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in digests),
    }
