"""What travels beside a payload: a POST's headers -> its record's headers."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from gateway.outcomes import Record
from gateway.problems import Problem
from shared.envelope import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    ID,
    PAYLOAD_SHA256,
    SOURCE,
    SPEC_VERSION,
    TENANT,
    TIME,
    TRACE_PARENT,
    TYPE,
    Header,
)
from shared.ids import NO_TENANT, derived_event_id, fresh_event_id, full_id

_KEPT_BYTES_MAX = 1024
_KEPT = {name.encode(): name for name in (CONTENT_TYPE, CONTENT_ENCODING)}
_CONTENT_TYPE = CONTENT_TYPE.encode()
_TRACE_PARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_IDEMPOTENCY_KEY = re.compile(rb"[\x21-\x7e]{1,255}")


class RequestHead(NamedTuple):
    """The request headers that matter here."""

    declared_bytes: int | None
    media_type: bytes
    idempotency_key: str | None
    kept: list[Header]


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> RequestHead:
    """Problem where a header makes the request one that must not be accepted."""
    declared_bytes: int | None = None
    media_type = b""
    idempotency_key: str | None = None
    kept: list[Header] = []
    for name, value in headers:
        if name == b"content-length":
            declared_bytes = int(value)
        elif name in _KEPT:
            kept.append(_keep(_KEPT[name], value))
            if name == _CONTENT_TYPE:
                media_type = value.partition(b";")[0].strip().lower()
        elif name == b"idempotency-key":
            idempotency_key = _idempotency_key(value, idempotency_key)
        elif name == b"traceparent" and _TRACE_PARENT.fullmatch(value):
            kept.append((TRACE_PARENT, value))
    return RequestHead(declared_bytes, media_type, idempotency_key, kept)


class Item(NamedTuple):
    """A payload, and by what a repeat of it is known: the client's key and, where one key stands
    for a whole batch, which of its payloads it is."""

    entity_id: str
    payload: bytes
    key: tuple[str, ...] | None


def record_of(
    item: Item, endpoint: str, received_at: str, kept: list[Header], tenant: str = NO_TENANT
) -> tuple[str, Record]:
    """Event id and record."""
    event_id = (
        fresh_event_id()
        if item.key is None
        else derived_event_id(tenant, endpoint, item.entity_id, *item.key)
    )
    headers = [
        (SPEC_VERSION, b"1.0"),
        (ID, event_id.encode()),
        (TYPE, f"ingest.{endpoint}".encode()),
        (SOURCE, f"/v1/{endpoint}".encode()),
        (TIME, received_at.encode()),
        (PAYLOAD_SHA256, sha256(item.payload).hexdigest().encode()),
        *kept,
    ]
    if tenant:
        headers.append((TENANT, tenant.encode()))
    return event_id, Record(full_id(tenant, item.entity_id).encode(), item.payload, headers)


def is_idempotency_key(value: bytes) -> bool:
    return _IDEMPOTENCY_KEY.fullmatch(value) is not None


def _keep(name: str, value: bytes) -> Header:
    if len(value) > _KEPT_BYTES_MAX:
        raise _bad("header_too_long", f"{name} has at most {_KEPT_BYTES_MAX} bytes here")
    return name, value


def _idempotency_key(value: bytes, earlier: str | None) -> str:
    if earlier is not None or not is_idempotency_key(value):
        raise _bad(
            "bad_idempotency_key",
            "Idempotency-Key is one header of 1 to 255 visible ASCII characters, no spaces",
        )
    return value.decode("ascii")


def _bad(code: str, detail: str) -> Problem:
    return Problem(400, code, detail, outcome="definite")
