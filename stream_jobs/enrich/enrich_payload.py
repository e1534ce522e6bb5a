"""A payload -> what becomes of it: an event, a dead letter, or work that waits. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson

from clients.kafka.records import BAD_HEADERS, Outgoing, Payload
from shared.contract import contract_of, infinite_place
from shared.errors import StaleMasterDataError
from shared.events import envelope, redelivery
from shared.events.envelope import EventRecord
from shared.events.oversize_stub import fitted
from shared.flow_table import Flow
from shared.formats.text import holds_nul
from shared.ids import FULL_ID, FULL_ID_RULE, full_id_within, part_id, tenant_of
from shared.model import (
    Arrival,
    Draft,
    Dropped,
    Endpoint,
    EventType,
    MasterRows,
    MissingMasterData,
    NotYet,
    Rejected,
)
from shared.timestamps import is_time_ms
from shared.topic_names import RECORD_BYTES_MAX, dead_letter_topic, dropped_topic, retry_topic
from shared.user_code import describe_error
from stream_jobs.enrich.breaches import noted
from stream_jobs.enrich.enrichment_input import given
from stream_jobs.enrich.known import Ask, Known, SnapshotOf, ask_nobody, no_snapshot
from stream_jobs.waiting.protocol import ENRICH, NOT_YET

STAGE = ENRICH
LANE, DEAD_LETTERS = retry_topic(STAGE), dead_letter_topic(STAGE)
_DROPPED = dropped_topic(STAGE)
_TIME_DIGITS_MAX = 15
_TOGETHER_BYTES_MAX = 4 * RECORD_BYTES_MAX
_EVENT_BYTES_MAX = RECORD_BYTES_MAX - 64 * 1024  # key and headers need room, too

# what a payload becomes, written together: its events, or the record that says why it has none
Enrich = Callable[[Payload, MasterRows], Sequence[Outgoing]]


def as_first_come(payload: Payload, ingest_topics: Collection[str]) -> Payload:
    """One that has come again, as the payload that it was."""
    if payload.position.topic in ingest_topics:
        return payload
    try:
        first = redelivery.first_of(payload.headers, ingest_topics)
    except ValueError as error:
        return payload._replace(lacks=str(error))
    return payload._replace(
        position=first.origin,
        arrived_ms=first.arrived_ms,
        attempt=first.attempt,
        revision=first.revision,
    )


def enricher(flow: Flow, snapshot_of: SnapshotOf = no_snapshot, ask: Ask = ask_nobody) -> Enrich:
    shapes = {event_type.name: event_type.shape for event_type in flow.event_types}
    alone = {topic: row for topic in flow.ingest_topics if (row := flow.endpoint_of(topic, None))}

    def enrich(payload: Payload, master: MasterRows) -> Sequence[Outgoing]:
        if payload.lacks:
            reason = "bad_headers" if payload.lacks == BAD_HEADERS else "no_origin"
            return [failure(DEAD_LETTERS, payload, reason, payload.lacks)]
        headers = dict(payload.headers)
        if len(headers) < len(payload.headers):  # of a name that comes twice, the first value
            headers = dict(reversed(payload.headers))
        topic = payload.position.topic
        endpoint = alone.get(topic) or flow.endpoint_of(topic, _text(headers, envelope.TYPE))
        if endpoint is None:
            kind = _text(headers, envelope.TYPE)
            detail = f"its header {envelope.TYPE} is {kind!r}, and several endpoints have its topic"
            return [failure(DEAD_LETTERS, payload, "unknown_endpoint", detail)]
        passed = None
        try:
            fields, passed = given(endpoint, payload, headers, ask)
            found = _events(endpoint, payload, headers, fields, master, snapshot_of, ask, shapes)
            if isinstance(found, Dropped):
                dropped = [_dropped(payload, headers, found)]
                return noted(passed, endpoint, payload, dropped) if passed else dropped
            made = _outgoing(flow, endpoint, found, payload)
            if flow.all_events:
                for record, event in zip(found, [*made], strict=True):
                    further = flow.topics_by_type[record.type][1:]
                    made += [event._replace(topic=topic) for topic in further]
            return noted(passed, endpoint, payload, made) if passed else made
        except Rejected as rejected:
            return [failure(DEAD_LETTERS, payload, rejected.code, rejected.detail)]
        except MissingMasterData as missing:
            if flow.waits:
                return [failure(LANE, payload, f"missing_{missing.table}", missing.key)]
            detail = f"no endpoint declares `master`: {missing}"
            return [failure(DEAD_LETTERS, payload, "undeclared_wait", detail)]
        except NotYet as not_yet:
            return [_not_yet(endpoint, payload, not_yet)]
        except StaleMasterDataError:
            raise  # no payload's fault
        except Exception as error:  # an endpoint's enrichment is a user's code
            reason, detail = "enrich_failed", describe_error(error, endpoint.enrich)
            if passed:  # which is why, most likely
                reason = passed.breach.code
                detail = f"{passed.breach.detail}; let pass, and then {detail}"
            return [failure(DEAD_LETTERS, payload, reason, detail)]

    return enrich


def _outgoing(
    flow: Flow, endpoint: Endpoint, records: Sequence[EventRecord], payload: Payload
) -> list[Outgoing]:
    made: list[Outgoing] = []
    size, kept, before = 0, envelope.kept_headers(payload.headers), None
    for record in records:
        event_type = flow.event_type(record.type)
        value = _value(endpoint, event_type, record)
        if before and (before.type, before.entity_id) == (record.type, record.entity_id):
            headers = envelope.next_headers(made[-1].headers, record)
        else:
            headers = envelope.event_headers(record, kept)
        made.append(Outgoing(event_type.topic, record.entity_id.encode(), value, headers))
        before, size = record, size + len(value)
        if size > _TOGETHER_BYTES_MAX:
            most = f"{_TOGETHER_BYTES_MAX} bytes may be together"
            raise Rejected("too_large", f"its first {len(made)} events have more: {most}")
    return made


def _value(endpoint: Endpoint, event_type: EventType, record: EventRecord) -> bytes:
    try:
        value = envelope.event_value(record)
    except TypeError as error:
        raise Rejected("not_writable", f"the event cannot be written as JSON: {error}") from error
    # JSON has null for a number that is not finite, and of a large event it takes long to look at
    # each of its values
    if endpoint.has_other_than_json and b"null" in value and (place := infinite_place(record.data)):
        raise Rejected("not_writable", f"{record.type}: {place}: not a finite number")
    if event_type.data and (breach := contract_of(event_type.data).breach(record.data)):
        # the mistake is the enrichment's: whoever reads this topic relies on its contract
        raise Rejected("off_contract", f"{record.type}: {breach.code}: {breach.detail}")
    if len(value) + 4 * len(record.id) > _EVENT_BYTES_MAX:  # its id is in a header, too
        # the topic would refuse it, and with it the batch, again and again
        raise Rejected("too_large", f"the event has {len(value)} bytes, {_EVENT_BYTES_MAX} may be")
    if holds_nul(value):
        raise Rejected("nul_in_text", r"\u0000 can be stored nowhere as text")
    return value


def _events(
    endpoint: Endpoint,
    payload: Payload,
    headers: Mapping[str, bytes],
    fields: Any,
    master: MasterRows,
    snapshot_of: SnapshotOf,
    ask: Ask,
    shapes: Mapping[str, int],
) -> Sequence[EventRecord] | Dropped:
    entity_id = _entity_id(payload)
    tenant = tenant_of(entity_id)
    arrival = Arrival(entity_id, payload.arrived_ms, _received_ms(headers))
    known = Known(tenant, master, endpoint, snapshot_of, ask, {})
    found = endpoint.enrich(fields, arrival, known)
    if isinstance(found, Dropped):
        if found.reason not in endpoint.drops:
            raise Rejected("undeclared_drop", f"{endpoint.name} does not declare {found.reason!r}")
        if payload.revision:
            raise Rejected("correction_moves", "the payload became events; now it would be dropped")
        return found
    drafts = [found] if isinstance(found, Draft) else _several(endpoint, found)
    event_id = _text(headers, envelope.ID) or str(payload.position)
    saw = known.saw or None  # by now: an enrichment may look while it yields
    records: list[EventRecord] = []
    checked_id = None
    for part, draft in enumerate(drafts):
        if not isinstance(draft, Draft):
            raise TypeError(
                f"the enrichment of {endpoint.name} returned {draft!r:.80}, not a Draft"
            )
        if draft.type not in endpoint.emits:
            raise Rejected("undeclared_type", f"{endpoint.name} does not declare {draft.type!r}")
        record = EventRecord(
            payload.position,
            full_id_within(tenant, draft.entity_id) if draft.entity_id else entity_id,
            part_id(event_id, part),
            draft.type,
            draft.time_ms,
            payload.arrived_ms,
            payload.position,
            payload.attempt,
            draft.data,
            None,
            payload.revision,
            shapes[draft.type],
            part,
            len(drafts),
            saw,
        )
        if record.entity_id != checked_id:
            checked_id = record.entity_id
            if not FULL_ID.fullmatch(checked_id) or tenant_of(checked_id) != tenant:
                raise Rejected("bad_entity_id", f"{checked_id[:200]!r}: {FULL_ID_RULE}")
        records.append(record)
    if payload.revision:
        _refuse_moved([record.entity_id for record in records], headers)
    return records


def _several(endpoint: Endpoint, found: Any) -> list[Draft]:
    is_one = isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable)
    drafts = [found] if is_one else list(islice(found, envelope.PARTS_MAX + 1))
    if len(drafts) > envelope.PARTS_MAX:
        raise Rejected("too_many_events", f"a payload becomes at most {envelope.PARTS_MAX} events")
    if not drafts:
        raise TypeError(
            f"the enrichment of {endpoint.name} made nothing; return Dropped(reason), and declare "
            "the reason in `drops`"
        )
    return drafts


def _refuse_moved(now: list[str], headers: Mapping[str, bytes]) -> None:
    """A correction cannot take an event out of the state of an entity."""
    was_of = _text(headers, envelope.SUBJECT)
    if (of_several := headers.get(envelope.PARTS_OF)) is not None:
        if orjson.loads(of_several) != now:
            raise Rejected(
                "correction_moves",
                f"the payload became events of {of_several[:1000].decode(errors='replace')}; now "
                f"it would become {len(now)}, or events of others",
            )
    elif len(now) > 1:
        detail = f"the payload became one event; now it would become {len(now)}"
        raise Rejected("correction_moves", detail)
    elif was_of not in (None, now[0]):
        raise Rejected(
            "correction_moves",
            f"the event is in the state of {was_of!r}; as one of {now[0]!r} it would count in both",
        )


def _not_yet(endpoint: Endpoint, payload: Payload, not_yet: NotYet) -> Outgoing:
    if endpoint.retry is None:
        nobody = f"{endpoint.name} declares no `retry`, so nothing would try it again"
        return failure(DEAD_LETTERS, payload, "undeclared_wait", f"{nobody}: {not_yet.why}")
    outgoing = failure(LANE, payload, NOT_YET, not_yet.why)
    if not_yet.after_s is not None:
        after_ms = round(not_yet.after_s * 1000)
        outgoing.headers.append((envelope.AFTER, str(after_ms).encode()))
    if not_yet.away:
        outgoing.headers.append((envelope.AWAY, b"1"))
    return outgoing


def _dropped(payload: Payload, headers: Mapping[str, bytes], dropped: Dropped) -> Outgoing:
    value = orjson.dumps({"reason": dropped.reason, "detail": dropped.detail[:1000]})
    origin = str(payload.position).encode()
    told = [(envelope.ID, headers.get(envelope.ID) or origin), (envelope.ORIGIN, origin)]
    return Outgoing(_DROPPED, payload.key, value, told)


def _text(headers: Mapping[str, bytes], name: str) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode(errors="backslashreplace")


def _received_ms(headers: Mapping[str, bytes]) -> int | None:
    """None where no spool held it, and where anyone has written there what is no time."""
    told = headers.get(envelope.RECEIVED)
    if told is None or len(told) > _TIME_DIGITS_MAX or not told.isdigit():
        return None
    received_ms = int(told)
    return received_ms if is_time_ms(received_ms) else None


def _entity_id(payload: Payload) -> str:
    if not payload.key:
        raise Rejected("no_key", "the record has no key: whose payload is it?")
    try:
        return payload.key.decode()
    except UnicodeDecodeError as error:
        raise Rejected("bad_key", f"the key is not UTF-8: {error}") from error


def failure(topic: str, payload: Payload, reason: str, detail: str) -> Outgoing:
    origin, arrived_ms = payload.position, payload.arrived_ms
    first = redelivery.FirstArrival(origin, arrived_ms, payload.attempt, payload.revision)
    known = redelivery.headers_of(payload.headers, first)  # all that brings it back from there
    headers = envelope.failure_headers(known, STAGE, origin, reason, detail)
    return Outgoing(topic, *fitted(origin, payload.key, payload.value, headers))
