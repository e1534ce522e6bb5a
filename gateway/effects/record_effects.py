"""What a record of an event topic, of a lane or of the dead letters tells of a payload. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.flow_table import Flow
from shared.published.ledger import lanes_of_events, lanes_of_payloads
from shared.topic_names import dead_letter_topic, dropped_topic, retry_topic

_ENRICH = "enrich"
_PLACES_LEAST = 1_000


class Made(NamedTuple):
    """An event of the payload."""

    place: Position
    id: str
    type: str
    entity_id: str
    part: int = 0
    parts: int = 1


class Ended(NamedTuple):
    """It goes no further: a stage has parked it, or its enrichment dropped it."""

    how: str  # "parked" or "dropped"
    by: str
    reason: str
    detail: str


class Waits(NamedTuple):
    reason: str
    detail: str


Fact = Made | Ended | Waits


class Told(NamedTuple):
    payload_id: str
    origin: str  # of the payload; of what is told of an event, the event's place
    fact: Fact


class Listener:
    """Which records tell of the payloads that are waited for. Its ids are noted by one thread, and
    all else is another one's, which forgets of itself what nobody waits for any more."""

    def __init__(self, flow: Flow) -> None:
        self.ids: set[bytes] = set()
        self.places: dict[bytes, bytes] = {}  # of their events -> the payload's id
        self._places_max = _PLACES_LEAST
        self._parked_by = {dead_letter_topic(_ENRICH): _ENRICH, **lanes_of_events(flow)}
        self._event_topics = frozenset(flow.event_topics)
        self.topics = [*flow.event_topics, *lanes_of_payloads(flow), *lanes_of_events(flow)]

    def hear(self, place: Position, headers: Sequence[Header], value: bytes) -> Told | None:
        named = dict(headers)
        origin = named.get(envelope.ORIGIN, b"")
        if (of_event := self.places.get(origin)) is not None:
            return self._of_event(of_event.decode(), place.topic, origin, named)
        payload_id = named.get(envelope.ID, b"").partition(b"#")[0]
        if payload_id not in self.ids:
            return None
        fact = self._fact(place, named, value)
        if fact is None:
            return None
        if isinstance(fact, Made):
            self._note(place, payload_id)
        return Told(payload_id.decode(), origin.decode(errors="replace"), fact)

    def _note(self, place: Position, payload_id: bytes) -> None:
        if len(self.places) >= self._places_max:
            self.places = {at: its for at, its in self.places.items() if its in self.ids}
            self._places_max = max(_PLACES_LEAST, 2 * len(self.places))
        self.places[str(place).encode()] = payload_id

    def _of_event(
        self, payload_id: str, topic: str, origin: bytes, named: Mapping[str, bytes]
    ) -> Told | None:
        stage = self._parked_by.get(topic)
        return Told(payload_id, origin.decode(), _parked(stage, named)) if stage else None

    def _fact(self, place: Position, named: Mapping[str, bytes], value: bytes) -> Fact | None:
        topic = place.topic
        if topic in self._event_topics:
            return _made(place, value)
        if topic == retry_topic(_ENRICH):
            return Waits(_text(named, envelope.REASON), _text(named, envelope.DETAIL))
        if topic == dropped_topic(_ENRICH):
            return _dropped(value)
        if self._parked_by[topic] == _ENRICH:
            return _parked(_ENRICH, named)
        return None  # of an event that is nobody's here


def _made(place: Position, value: bytes) -> Made | None:
    try:
        event = envelope.read_event(place, value)
    except ValueError:
        return None
    if event.cause is not None:  # it follows from a change of state, and not from the payload
        return None
    return Made(place, event.id, event.type, event.entity_id, event.part, event.parts)


def _parked(stage: str, named: Mapping[str, bytes]) -> Ended:
    return Ended("parked", stage, _text(named, envelope.REASON), _text(named, envelope.DETAIL))


def _dropped(value: bytes) -> Ended | None:
    try:
        told = orjson.loads(value)
        return Ended("dropped", _ENRICH, str(told["reason"]), str(told.get("detail", "")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _text(named: Mapping[str, bytes], name: str) -> str:
    return named.get(name, b"").decode(errors="backslashreplace")
