"""What travels beside a payload: a POST's headers -> its record's headers."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from gateway.http.message import ByName
from gateway.http.problems import refused
from gateway.kafka_writer.outcome import Record
from shared.events.envelope import (
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
from shared.ids import derived_event_id, fresh_event_id, full_id

_KEPT_BYTES_MAX = 1024
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


def read_head(headers: ByName) -> RequestHead:
    """Problem where a header makes the request one that must not be accepted."""
    length = headers.get(b"content-length")
    content_type = headers.get(b"content-type")
    encoding = headers.get(b"content-encoding")
    key = headers.get(b"idempotency-key")
    trace_parent = headers.get(b"traceparent")
    kept: list[Header] = []
    if content_type is not None:
        kept.append(_keep(CONTENT_TYPE, content_type))
    if encoding is not None:
        kept.append(_keep(CONTENT_ENCODING, encoding))
    if trace_parent is not None and _TRACE_PARENT.fullmatch(trace_parent):
        kept.append((TRACE_PARENT, trace_parent))
    return RequestHead(
        None if length is None else int(length),
        b"" if content_type is None else _media_type(content_type),
        None if key is None else _idempotency_key(key),
        kept,
    )


Key = tuple[str, ...]


class Item(NamedTuple):
    """A payload, and by what a repeat of it is known: the client's key and, where one key stands
    for a whole batch, which of its payloads it is."""

    entity_id: str
    payload: bytes
    key: Key | None


def event_id_of(
    item: Item, endpoint: str, tenant: str, fresh: Callable[[], str] = fresh_event_id
) -> str:
    if item.key is None:
        return fresh()
    return derived_event_id(tenant, endpoint, item.entity_id, *item.key)


def common_headers(
    endpoint: str, received_at: str, kept: list[Header], tenant: str
) -> list[Header]:
    """What the records of all payloads of a request say."""
    headers = [*_of_all(endpoint), (TIME, received_at.encode()), *kept]
    if tenant:
        headers.append((TENANT, tenant.encode()))
    return headers


def record_of(
    item: Item, event_id: str, common: list[Header], tenant: str, payload_sha256: str
) -> Record:
    own = (ID, event_id.encode()), (PAYLOAD_SHA256, payload_sha256.encode())
    return Record(full_id(tenant, item.entity_id).encode(), item.payload, [*common, *own])


@lru_cache
def _of_all(endpoint: str) -> tuple[Header, ...]:
    """The headers that are the same for all payloads of an endpoint."""
    return (
        (SPEC_VERSION, b"1.0"),
        (TYPE, f"ingest.{endpoint}".encode()),
        (SOURCE, f"/v1/{endpoint}".encode()),
    )


@lru_cache
def _media_type(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def is_idempotency_key(value: bytes) -> bool:
    return _IDEMPOTENCY_KEY.fullmatch(value) is not None


def _keep(name: str, value: bytes) -> Header:
    if len(value) > _KEPT_BYTES_MAX:
        raise refused(400, "header_too_long", f"{name} has at most {_KEPT_BYTES_MAX} bytes here")
    return name, value


def _idempotency_key(value: bytes) -> str:
    if not is_idempotency_key(value):
        raise refused(
            400,
            "bad_idempotency_key",
            "an Idempotency-Key has 1 to 255 visible ASCII characters, no spaces",
        )
    return value.decode("ascii")
