"""`limit` and `next`, as each answer that comes page by page takes them. Pure."""

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

from gateway.http.problems import Problem

LIMIT_MAX = 1000
_LIMIT = 100
WHOLE = re.compile(r"[0-9]{1,9}")
DESCRIBED_LIMIT: dict[str, Any] = {
    "type": "integer",
    "minimum": 1,
    "maximum": LIMIT_MAX,
    "default": _LIMIT,
}


def limit_of(parameters: Mapping[str, str]) -> int:
    told = parameters.get("limit", str(_LIMIT))
    if not WHOLE.fullmatch(told) or not 1 <= int(told) <= LIMIT_MAX:
        raise Problem(400, "bad_parameter", f"limit is a whole number from 1 to {LIMIT_MAX}")
    return int(told)


def next_of(parameters: Mapping[str, str]) -> bytes:
    """Nothing where it is the first page."""
    try:
        return b64decode(parameters.get("next", "").encode(), b"-_", validate=True)
    except ValueError:
        raise bad_next() from None


def token_of(place: bytes) -> str:
    return urlsafe_b64encode(place).decode()


def bad_next() -> Problem:
    return Problem(400, "bad_parameter", "next is what an answer said is next, as it came")
