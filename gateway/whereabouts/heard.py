"""What records of event topics, lanes and dead letters tell of one payload. Pure."""

from collections.abc import Iterable
from typing import Any

import orjson

from clients.kafka.records import Record
from gateway.whereabouts.facts import Ended, Event, Waits
from gateway.whereabouts.places import place_of
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.flow_table import Flow
from shared.ids import line_alone
from shared.model import Fields
from shared.published.ledger import lanes_of_events, lanes_of_payloads
from shared.timestamps import to_rfc3339
from shared.topic_names import dead_letter_topic, dropped_topic, retry_topic

_ENRICH = "enrich"
_BEHIND = "behind"


class Heard:
    def __init__(self, flow: Flow, payload_id: str, origin: str) -> None:
        """`origin`: the place of the payload; another one may have come under the same id."""
        self.topics = [*flow.event_topics, *lanes_of_payloads(flow), *lanes_of_events(flow)]
        self.events: dict[str, Event] = {}
        self.parts: int | None = None
        self.waits: tuple[str, str] | None = None  # why, when it was last tried
        self.ended: Ended | None = None
        self._event_topics = frozenset(flow.event_topics)
        self._parked_by = {dead_letter_topic(_ENRICH): _ENRICH, **lanes_of_events(flow)}
        self._id = payload_id.encode()
        self._origin = origin.encode()

    @property
    def is_whole(self) -> bool:
        return self.ended is not None or (self.parts or 1) <= len(self.events)

    def hear(self, record: Record) -> None:
        named = dict(record.headers)
        origin, topic = named.get(envelope.ORIGIN, b""), record.position.topic
        if topic in self._parked_by and origin.decode(errors="replace") in self._places():
            self._end("parked", self._parked_by[topic], named, record)
        elif origin == self._origin and named.get(envelope.ID, b"").partition(b"#")[0] == self._id:
            self._hear_its_own(topic, named, record)

    def _hear_its_own(self, topic: str, named: dict[str, bytes], record: Record) -> None:
        if topic in self._event_topics:
            self._hear_event(record)
        elif topic == retry_topic(_ENRICH):
            self.waits = _text(named, envelope.REASON), _text(named, envelope.DETAIL)
        elif topic == dropped_topic(_ENRICH):
            named |= _dropped(record.value or b"")
            self._end("dropped", _ENRICH, named, record)
        elif self._parked_by.get(topic) == _ENRICH:
            self._end("parked", _ENRICH, named, record)

    def _hear_event(self, record: Record) -> None:
        try:
            event = envelope.read_event(record.position, record.value or b"")
        except ValueError:
            return
        # written twice, it counts at its first place; a correction at its own
        known = self.events.get(event.id)
        if event.cause is None and (known is None or known.revision < event.revision):
            self.events[event.id] = event_of(event, record.time_ms)
            self.parts = event.parts

    def _end(self, how: str, by: str, named: dict[str, bytes], record: Record) -> None:
        told = _text(named, envelope.REASON), _text(named, envelope.DETAIL)
        self.ended = Ended(how, by, *told, record.time_ms, str(record.position))

    def _places(self) -> set[str]:
        return {event.place for event in self.events.values()}


def event_of(event: EventRecord, written_ms: int) -> Event:
    saw: Fields | None = dict(event.saw) if event.saw else None
    told = str(event.position), to_rfc3339(event.time_ms), written_ms, event.revision, saw
    return Event(event.id, event.type, event.entity_id, *told)


def lines_of(entity_id: str, payload_id: str) -> list[bytes]:
    """Keys of gates: of its entity's line, and of its own, should it wait alone."""
    return [name.encode() for name in (entity_id, line_alone(entity_id, payload_id))]


def line_in(
    records: Iterable[Record], entity_id: str, payload_id: str, place: Position
) -> Waits | None:
    """Where a payload waits, by the gates of enrich: in the line of its entity, or in its own if it
    waits alone. None where the gate of neither is open, or the line has begun behind this
    payload."""
    keys = lines_of(entity_id, payload_id)
    latest = {record.key: record.value for record in records if record.key in keys}
    for key in reversed(keys):
        told = _gate(latest.get(key))
        if told is None:
            continue
        first = place_of(str(told["origin"]))
        if key == keys[0] and first and first[:2] == place[:2] and first > place:
            continue
        due_ms, since_ms = told.get("due_ms"), told.get("since_ms")
        about = {
            **({"since": to_rfc3339(since_ms)} if isinstance(since_ms, int) else {}),
            **({"next_try": to_rfc3339(due_ms)} if isinstance(due_ms, int) else {}),
            "tries": told.get("tries", 0),
        }
        line = {"place": str(told["origin"]), "payloads": told.get("payloads")}
        is_first = key == keys[1] or first == place
        why = str(told.get("reason", "")), str(told.get("detail", ""))
        return Waits(_ENRICH, *why, entity_id, line, about, is_first)
    return None


def line_by_lane(told: tuple[str, str], entity_id: str) -> Waits:
    """Where the gates cannot be looked through."""
    reason, detail = told
    return Waits(_ENRICH, reason, detail, entity_id, is_first=reason != _BEHIND)


def _gate(value: bytes | None) -> dict[str, Any] | None:
    try:
        told = orjson.loads(value or b"")
    except ValueError:
        return None
    return told if isinstance(told, dict) and "origin" in told else None


def _dropped(value: bytes) -> dict[str, bytes]:
    try:
        told = orjson.loads(value)
        reason, detail = str(told["reason"]), str(told.get("detail", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {envelope.REASON: reason.encode(), envelope.DETAIL: detail.encode()}


def _text(named: dict[str, bytes], name: str) -> str:
    return named.get(name, b"").decode(errors="backslashreplace")
