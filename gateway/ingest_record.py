"""What travels beside a payload: a POST's headers -> its record's headers."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from gateway.problems import Problem
from shared.envelope import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    ID,
    PAYLOAD_SHA256,
    SOURCE,
    SPEC_VERSION,
    TIME,
    TRACE_PARENT,
    TYPE,
    Header,
)
from shared.timestamps import to_rfc3339

_KEPT_BYTES_MAX = 1024
_KEPT = {name.encode(): name for name in (CONTENT_TYPE, CONTENT_ENCODING)}
_TRACE_PARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_IDEMPOTENCY_KEY = re.compile(rb"[\x21-\x7e]{1,255}")


class RequestHead(NamedTuple):
    """The request headers that matter here."""

    declared_bytes: int | None
    idempotency_key: str | None
    kept: list[Header]


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """Problem where a header makes the request one that must not be accepted."""
    declared_bytes: int | None = None
    idempotency_key: str | None = None
    kept: list[Header] = []
    for name, value in headers:
        if name == b"content-length":
            declared_bytes = int(value)
        elif name in _KEPT:
            kept.append(_keep(_KEPT[name], value))
        elif name == b"idempotency-key":
            idempotency_key = _idempotency_key(value, idempotency_key)
        elif name == b"traceparent":
            if _TRACE_PARENT.fullmatch(value):
                kept.append((TRACE_PARENT, value))
        elif name == b"upgrade":
            # the HTTP parser takes what follows for another protocol and drops the body
            raise _bad("upgrade_refused", "send the payload without an Upgrade header", ends=True)
    return RequestHead(declared_bytes, idempotency_key, kept)


def record_headers(
    event_id: str, endpoint: str, received_ms: int, body: bytes, kept: list[Header]
) -> list[Header]:
    return [
        (SPEC_VERSION, b"1.0"),
        (ID, event_id.encode()),
        (TYPE, f"ingest.{endpoint}".encode()),
        (SOURCE, f"/v1/{endpoint}".encode()),
        (TIME, to_rfc3339(received_ms).encode()),
        (PAYLOAD_SHA256, sha256(body).hexdigest().encode()),
        *kept,
    ]


def _keep(name: str, value: bytes) -> Header:
    if len(value) > _KEPT_BYTES_MAX:
        raise _bad("header_too_long", f"{name} has at most {_KEPT_BYTES_MAX} bytes here")
    return name, value


def _idempotency_key(value: bytes, earlier: str | None) -> str:
    if earlier is not None or not _IDEMPOTENCY_KEY.fullmatch(value):
        raise _bad(
            "bad_idempotency_key",
            "Idempotency-Key is one header of 1 to 255 visible ASCII characters, no spaces",
        )
    return value.decode("ascii")


def _bad(code: str, detail: str, ends: bool = False) -> Problem:
    return Problem(400, code, detail, outcome="definite", ends_connection=ends)
