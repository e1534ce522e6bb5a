"""How a request to a hook is signed: by Standard Webhooks, so that any library of theirs checks it.
Pure."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping

PREFIX = "whsec_"
_BYTES = 32
_BYTES_MIN, _BYTES_MAX = 24, 64
_CLOCKS_APART_S = 300
_TIME = re.compile("[0-9]{1,12}")


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
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(_signature(id_, str(at_s), body, key) for key in keys),
    }


def is_signed(headers: Mapping[str, str], body: bytes, key: bytes, now_s: float) -> bool:
    """As a receiver finds out, whose headers have names in lower case."""
    id_, at_s = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _TIME.fullmatch(at_s) or abs(now_s - int(at_s)) > _CLOCKS_APART_S:
        return False
    expected = _signature(id_, at_s, body, key).encode()
    sent = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(one.encode(), expected) for one in sent)


def _signature(id_: str, at_s: str, body: bytes, key: bytes) -> str:
    digest = hmac.new(key, f"{id_}.{at_s}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
