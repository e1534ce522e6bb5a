"""What is answered of a payload that is tried. Pure, but for what the domain's own code does."""

import time
from contextlib import suppress
from hashlib import sha256
from typing import Any

import orjson

from clients.kafka.records import Payload
from desk.prediction.fate import NO_PARTITION, SnapshotLookup, fate_of, no_snapshots
from desk.prediction.states import states_after
from gateway.http.problems import Problem
from gateway.ingest.record import Item, RequestHead, common_headers, event_id_of, record_of
from gateway.ingest.split_batch import is_batch
from shared.contract import versions_of
from shared.events.envelope import CONTENT_ENCODING, CONTENT_TYPE, EventRecord, Position, find
from shared.flow_table import Flow
from shared.formats import UndecodableError, UnknownVersionError, decoded
from shared.ids import FULL_ID, FULL_ID_RULE, tenant_of
from shared.model import Endpoint, Fields, MasterRows
from shared.timestamps import to_rfc3339
from shared.topic_names import BODY_BYTES_MOST
from stream_jobs.enrich.known import Ask, ask_nobody

_TEXT_CHARS_MAX = 10_000


def answer(
    flow: Flow,
    endpoint: Endpoint,
    payload: Payload,
    master: MasterRows,
    snapshots: SnapshotLookup | None,
    ask: Ask = ask_nobody,
) -> Fields:
    """Without states where no snapshots are known."""
    fate = fate_of(flow, payload, master, snapshots or no_snapshots, ask)
    after = None if snapshots is None else states_after(flow, fate.events, snapshots)
    return {
        "decoded": _decoded(endpoint, payload),
        "outcome": fate.outcome,
        "cause": fate.cause,
        "detail": fate.detail,
        "breach": fate.breach,
        "events": [_event(record) for record in fate.events],
        "derived": [_event(record) for record in after.derived] if after else [],
        "states": [state._asdict() for state in after.states] if after else None,
    }


def payload_of(endpoint: Endpoint, entity_id: str, head: RequestHead, body: bytes) -> Payload:
    """As enrich would read what the gateway would have written."""
    if not FULL_ID.fullmatch(entity_id):
        raise Problem(400, "bad_entity_id", FULL_ID_RULE)
    if is_batch(entity_id, head):
        raise Problem(415, "batch", "one payload at a time is tried: send it without that type")
    if not body:
        raise Problem(400, "empty_body", "an empty body is no payload")
    if len(body) > BODY_BYTES_MOST:
        raise Problem(413, "too_large", f"a payload has at most {BODY_BYTES_MOST} bytes")
    now_ms, tenant = time.time_ns() // 1_000_000, tenant_of(entity_id)
    key = None if head.idempotency_key is None else (head.idempotency_key,)
    item = Item(entity_id.rpartition("/")[2], body, key)
    common = common_headers(endpoint.name, to_rfc3339(now_ms), head.kept, tenant)
    digest = sha256(body).hexdigest()
    record = record_of(item, event_id_of(item, endpoint.name, tenant), common, tenant, digest)
    place = Position(endpoint.topic, NO_PARTITION, 0)
    return Payload(place, record.key, record.value, record.headers, now_ms)


def _decoded(endpoint: Endpoint, payload: Payload) -> Fields | None:
    """None where it cannot be decoded; the fate says why."""
    try:
        value, form = decoded(
            endpoint.formats,
            payload.value or b"",
            find(payload.headers, CONTENT_TYPE),
            find(payload.headers, CONTENT_ENCODING),
            endpoint.decompressed_bytes_max,
        )
    except UndecodableError:
        return None
    shown = {"format": type(form).__name__, "value": _shown(value)}
    if versions := versions_of(endpoint):
        with suppress(UnknownVersionError):
            shown["version"] = versions.of(value, find(payload.headers, CONTENT_TYPE))
    return shown


def _shown(value: Any) -> Any:
    """Formats other than JSON have values that it has not: these are shown as text."""
    try:
        return orjson.loads(orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS))
    except (TypeError, ValueError):  # too deep, or a number beyond 64 bits
        return repr(value)[:_TEXT_CHARS_MAX]


def _event(record: EventRecord) -> Fields:
    shown: Fields = {
        "id": record.id,
        "type": record.type,
        "entity_id": record.entity_id,
        "time": to_rfc3339(record.time_ms),
        "data": record.data,
    }
    more = {"cause": record.cause, "saw": record.saw}
    return {**shown, **{name: value for name, value in more.items() if value}}
