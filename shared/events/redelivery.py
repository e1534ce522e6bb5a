"""A payload on its way back into a stage. What was true of it when it first came travels in its
headers, for the record that brings it back has a place and a time of its own."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.timestamps import is_time_ms

_OURS = (
    envelope.ORIGIN,
    envelope.ARRIVED,
    envelope.ATTEMPT,
    envelope.REVISION,
    envelope.READ_AT,
    envelope.STAGE,
    envelope.REASON,
    envelope.DETAIL,
    envelope.SOFTWARE,
)


class FirstArrival(NamedTuple):
    """What is known of a payload since it first came."""

    origin: Position  # its place in the ingest log
    arrived_ms: int
    attempt: int = 0  # 0: this is the first
    revision: int = 0  # above 0: it corrects the event that came of it before


def headers_of(headers: Iterable[Header], first: FirstArrival) -> list[Header]:
    """A payload's own headers, and these facts. Of a letter's headers the payload's own stay."""
    own = [(name, value) for name, value in headers if name not in _OURS]
    if envelope.find(own, envelope.ID) is None:
        own.append((envelope.ID, str(first.origin).encode()))
    return [
        *own,
        (envelope.ORIGIN, str(first.origin).encode()),
        (envelope.ARRIVED, str(first.arrived_ms).encode()),
        *([(envelope.ATTEMPT, str(first.attempt).encode())] if first.attempt else []),
        *([(envelope.REVISION, str(first.revision).encode())] if first.revision else []),
    ]


def first_of(headers: Iterable[Header], topics: Collection[str]) -> FirstArrival:
    """The facts of a payload that comes again; ValueError says which are missing or wrong.
    `topics`: those that payloads come from."""
    headers = tuple(headers)
    if not envelope.find(headers, envelope.ID):
        raise ValueError(f"the header {envelope.ID} is missing: it names the event")
    is_corrected = envelope.find(headers, envelope.REVISION) is not None
    first = FirstArrival(
        _origin(envelope.text(headers, envelope.ORIGIN), topics),
        _number(headers, envelope.ARRIVED, 0),
        _number(headers, envelope.ATTEMPT, 1),
        _number(headers, envelope.REVISION, 1) if is_corrected else 0,
    )
    if not is_time_ms(first.arrived_ms):
        raise ValueError(f"{envelope.ARRIVED} is {first.arrived_ms}: no time in the years to 9999")
    return first


def _origin(told: str | None, topics: Collection[str]) -> Position:
    if told is None:
        raise ValueError(f"the header {envelope.ORIGIN} is missing: where did this come from?")
    try:
        origin = Position.parse(told)
    except ValueError:
        raise ValueError(f"{envelope.ORIGIN} is {told!r}, not topic/partition/offset") from None
    if origin.topic not in topics:
        raise ValueError(f"{envelope.ORIGIN} is {told!r}, and no endpoint owns that topic")
    if min(origin.partition, origin.offset) < 0:
        raise ValueError(f"{envelope.ORIGIN} is {told!r}: no such place can be")
    return origin


def _number(headers: Iterable[Header], name: str, least: int) -> int:
    told = envelope.text(headers, name)
    if told is None:
        raise ValueError(f"the header {name} is missing")
    # 18 digits fit into every column and counter
    if not (told.isascii() and told.isdecimal() and len(told) <= 18 and int(told) >= least):
        raise ValueError(f"{name} is {told[:40]!r}, not a whole number from {least} on")
    return int(told)
