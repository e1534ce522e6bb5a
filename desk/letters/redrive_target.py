"""What sending a letter on again comes to, by the stage that could not do it: to that stage alone,
nothing that was done before it is done again. Pure."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

import orjson

from clients.kafka.records import Outgoing, Record
from shared.events import envelope, redelivery
from shared.events.envelope import EventRecord, Header, Position
from shared.events.redelivery import FirstArrival
from shared.flow_table import Flow
from shared.published.dead_letters import Letter, noted
from shared.topic_names import again_topic
from stream_jobs.persist.rows import Row, RowMaker


class ResendError(Exception):
    """Why it cannot be sent on again, and what can be done instead."""


class RowToStore(NamedTuple):
    """For the tables: persist's own step, which may be done any number of times."""

    row: Row


# the first for the relay, through the outbox: together with the note that it was sent
RedriveTarget = Outgoing | RowToStore
Rewrite = Callable[[bytes], bytes]  # of a letter's bytes; ResendError where it cannot be done
_Find = Callable[[Flow, Letter, int], RedriveTarget]


def always(value: bytes) -> Rewrite:
    return lambda _: value


def redrive_target(
    flow: Flow, letter: Letter, attempt: int, change: Rewrite | None = None
) -> RedriveTarget:
    """`attempt`: the number that this one has."""
    if letter.payload is not None and letter.payload == letter.origin:
        return _payload(flow, letter, attempt, change)
    if change is not None:
        raise ResendError(
            "its bytes are an event or a snapshot that others have taken as it is: they cannot be "
            "changed here; mend the code, or send the payload again"
        )
    found = _BY_STAGE.get(letter.last.stage)
    if found is None:
        raise ResendError(
            f"there is no way back into {letter.last.stage!r} for {letter.origin}: discard the "
            "letter, or send what it holds again"
        )
    return found(flow, letter, attempt)


def _payload(flow: Flow, letter: Letter, attempt: int, change: Rewrite | None) -> RedriveTarget:
    if letter.origin.topic not in flow.ingest_topics:
        raise ResendError(
            f"the flow has no endpoint for {letter.origin.topic}, so nothing would take it: put "
            "the endpoint back, or discard the letter"
        )
    # an empty id names no event: it is that of a payload without one
    named = [header for header in letter.headers if header != (envelope.ID, b"")]
    headers = redelivery.headers_of(
        noted(named, letter.last),
        FirstArrival(letter.origin, letter.arrived_ms, attempt, _revision(letter)),
    )
    value = letter.value if change is None else change(letter.value or b"")
    if value != letter.value:
        headers = _rewritten(headers, letter.value or b"", value or b"")
    return Outgoing(again_topic("enrich"), letter.key, value, headers)


def discarded_payload(
    place: Position, entity_id: str, event_id: str | None, attempt: int, arrived_ms: int
) -> Outgoing:
    """Those of its entity that wait behind it need not any more."""
    named = [(envelope.ID, (event_id or str(place)).encode()), (envelope.DISCARDED, b"1")]
    headers = redelivery.headers_of(named, FirstArrival(place, arrived_ms, attempt + 1))
    return Outgoing(again_topic("enrich"), entity_id.encode(), None, headers)


def _revision(letter: Letter) -> int:
    told = envelope.find(letter.headers, envelope.REVISION) or b""
    return int(told) if told.isdigit() and len(told) <= 9 else 0


def _rewritten(headers: list[Header], before: bytes, after: bytes) -> list[Header]:
    """The sha256 of what was posted stays known, however often it is rewritten."""
    first = envelope.find(headers, envelope.REWRITTEN) or sha256(before).hexdigest().encode()
    ours = (envelope.PAYLOAD_SHA256, envelope.REWRITTEN)
    return [
        *((name, value) for name, value in headers if name not in ours),
        (envelope.PAYLOAD_SHA256, sha256(after).hexdigest().encode()),
        (envelope.REWRITTEN, first),
    ]


def _into_fold(flow: Flow, letter: Letter, attempt: int) -> RedriveTarget:
    event = event_of(letter)
    if event is None:
        raise ResendError("these bytes are no event and will never be one: discard the letter")
    if event.type not in (row.name for row in flow.event_types):
        raise ResendError(
            f"the flow has no event type {event.type!r}: put it back, or discard this"
        )
    takers = [entity.name for entity in flow.entities if event.type in entity.reads]
    if len(takers) != 1:
        raise ResendError(
            f"{event.type} is folded by {' and '.join(takers) or 'nobody'}: who has taken it "
            "already might take it twice; rebuild fold from the event log instead"
        )
    value = orjson.dumps({**orjson.loads(letter.value or b""), "attempt": attempt})
    topic = flow.event_type(event.type).topic
    headers = envelope.event_headers(event._replace(attempt=attempt))
    return Outgoing(topic, event.entity_id.encode(), value, headers)


def event_of(letter: Letter) -> EventRecord | None:
    try:
        return envelope.read_event(letter.origin, letter.value or b"")
    except ValueError:
        return None


def _into_persist(flow: Flow, letter: Letter, _attempt: int) -> RedriveTarget:
    if letter.last.cause == "key_reuse":
        raise ResendError(
            "another payload came under the same Idempotency-Key and is the event: send this one "
            "again under a key of its own, or discard the letter"
        )
    rows = RowMaker.of(flow)
    if not rows.reads(letter.origin.topic):
        raise ResendError(
            f"the flow has no topic {letter.origin.topic}: put it back, or discard this"
        )
    record = Record(letter.origin, letter.key, letter.value, list(letter.headers))
    return RowToStore(rows.make(record))


def _into_aggregate(*_: object) -> RedriveTarget:
    raise ResendError(
        "aggregate takes the member's next snapshot by itself, and an old one must not come after "
        "newer ones: mend the code; the member's next change mends the sum. Then discard this"
    )


def _into_forward(_flow: Flow, letter: Letter, attempt: int) -> RedriveTarget:
    """To its hook alone, beside what is new; if that is gone by then, forward parks it again."""
    if envelope.find(letter.headers, envelope.STUB) is not None:
        raise ResendError("the letter has not the event's bytes, which are too large: discard it")
    headers = [
        *(one for one in noted(letter.headers, letter.last) if one[0] != envelope.ATTEMPT),
        (envelope.ATTEMPT, str(attempt).encode()),
        (envelope.REPLAY, b"1"),
    ]
    return Outgoing(again_topic("forward"), letter.key, letter.value, headers)


_BY_STAGE: Mapping[str, _Find] = {
    "fold": _into_fold,
    "persist": _into_persist,
    "aggregate": _into_aggregate,
    "forward": _into_forward,
}
