"""A dead letter, read from its record: what could not be done, whose it is, and how often it was
tried. Pure.

Any version of ours may have written it, or somebody else, so whatever is missing or strange reads
as such: a letter that nobody could look at would be lost.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from shared.events import envelope
from shared.events.envelope import EventRecord, Header, Position
from shared.flow_table import Flow
from shared.ids import derived_event_id
from shared.timestamps import is_time_ms

_INGEST = re.compile(r"ingest\.(.+)\.v[0-9]+")
_LANE = re.compile(r"dlq\.(.+)\.v[0-9]+")
_TEXT_MAX = 4096
_NAME_MAX = 200
_EVENT_ID_MAX = 600  # a longer one can be no row's, and no index takes it
_ATTEMPTS_TOLD_MAX = 50
_ATTEMPTS_MAX = 1_000_000
_PARTITIONS_MAX = 1 << 31
_OFFSETS_MAX = 1 << 63


class Attempt(NamedTuple):
    """A time at which it could not be done."""

    number: int  # 0: the first
    at_ms: int
    stage: str
    cause: str
    detail: str
    software: str


_TEXTS = Attempt._fields[2:]


class Letter(NamedTuple):
    id: str  # the same each time that it comes back
    place: Position  # in the dead-letter topic
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    origin: Position  # of what could not be done: a payload, an event or a snapshot
    payload: Position | None  # from which that came, where it came from one
    arrived_ms: int
    event_id: str | None
    endpoint: str | None
    entity_id: str | None
    hook: str | None  # that could not be given it
    attempts: tuple[Attempt, ...]  # the last one is this letter's

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]


def read(
    flow: Flow,
    place: Position,
    parked_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
) -> Letter:
    headers = tuple(headers)
    lane = _LANE.fullmatch(place.topic)
    stage = _text(headers, envelope.STAGE, _NAME_MAX) or (lane[1] if lane else place.topic)
    hook = _text(headers, envelope.HOOK, _NAME_MAX)
    told = _origin(headers)
    origin = told or place
    of_payload = told is not None and (stage == "enrich" or told.topic in flow.ingest_topics)
    event = None if of_payload else _event(place, value)
    payload = origin if of_payload else None
    if event is not None and event.cause is None and _can_be(event.origin):
        payload = event.origin
    # an event that was sent on to a hook again is the same bytes
    number = max(event.attempt if event else 0, _number(headers, envelope.ATTEMPT) or 0)
    now = Attempt(
        number=number if 0 <= number < _ATTEMPTS_MAX else 0,
        at_ms=parked_ms,
        stage=stage,
        cause=_text(headers, envelope.REASON, _NAME_MAX) or "unknown",
        detail=_text(headers, envelope.DETAIL, _TEXT_MAX) or "",
        software=_text(headers, envelope.SOFTWARE, _NAME_MAX) or "",
    )
    arrived_ms = event.arrived_ms if event else _number(headers, envelope.ARRIVED)
    event_id = _clean(event.id) if event else _text(headers, envelope.ID, _TEXT_MAX)
    if of_payload and not event_id:
        event_id = str(origin)
    return Letter(
        # what one hook did not take another may have
        id=derived_event_id("letter", stage, str(origin), *([hook] if hook else [])),
        place=place,
        key=key,
        value=value,
        headers=headers,
        origin=origin,
        payload=payload,
        arrived_ms=parked_ms if arrived_ms is None or not is_time_ms(arrived_ms) else arrived_ms,
        event_id=event_id if event_id and len(event_id) <= _EVENT_ID_MAX else None,
        endpoint=_endpoint(flow, payload, headers),
        entity_id=None if key is None else _shown(key, _NAME_MAX),
        hook=hook,
        attempts=(*_earlier(headers), now),
    )


def noted(headers: Iterable[Header], attempt: Attempt) -> list[Header]:
    """These headers, for what is tried once more: with what went wrong this time."""
    headers = tuple(headers)
    known = [*_earlier(headers), attempt][-_ATTEMPTS_TOLD_MAX:]
    own = [(name, value) for name, value in headers if name != envelope.ATTEMPTS]
    return [*own, (envelope.ATTEMPTS, orjson.dumps([one._asdict() for one in known]))]


def _earlier(headers: Iterable[Header]) -> list[Attempt]:
    told = envelope.find(headers, envelope.ATTEMPTS)
    try:
        found = [
            Attempt(one["number"], one["at_ms"], *(_clean(one[name]) for name in _TEXTS))
            for one in orjson.loads(told or b"[]")
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    return [
        one
        for one in found[-_ATTEMPTS_TOLD_MAX:]
        if type(one.number) is int and 0 <= one.number < _ATTEMPTS_MAX and is_time_ms(one.at_ms)
    ]


def _origin(headers: Iterable[Header]) -> Position | None:
    told = _text(headers, envelope.ORIGIN, _TEXT_MAX)
    try:
        origin = Position.parse(told) if told else None
    except ValueError:
        return None
    return origin if origin and _can_be(origin) else None


def _can_be(place: Position) -> bool:
    return (
        "\0" not in place.topic
        and 0 <= place.partition < _PARTITIONS_MAX
        and 0 <= place.offset < _OFFSETS_MAX
    )


def _event(place: Position, value: bytes | None) -> EventRecord | None:
    try:
        return envelope.read_event(place, value or b"")
    except ValueError:
        return None


def _endpoint(flow: Flow, payload: Position | None, headers: Iterable[Header]) -> str | None:
    """The endpoint of a payload. Where the flow no longer has the topic, as it was named; where
    several share it and the letter does not say which, that of their stream."""
    if payload is None:
        return None
    endpoint = flow.endpoint_of(payload.topic, envelope.text(headers, envelope.TYPE))
    ingest = _INGEST.fullmatch(payload.topic)
    return endpoint.name if endpoint else ingest[1] if ingest else payload.topic


def _text(headers: Iterable[Header], name: str, chars_max: int) -> str | None:
    told = envelope.find(headers, name)
    return None if told is None else _shown(told, chars_max)


def _shown(value: bytes, chars_max: int) -> str:
    return _clean(value.decode(errors="backslashreplace"))[:chars_max]


def _clean(text: str) -> str:
    return text.replace("\0", "\\0")  # no table holds a NUL as text


def _number(headers: Iterable[Header], name: str) -> int | None:
    told = envelope.find(headers, name)
    return int(told) if told and told.isdigit() and len(told) <= 15 else None
