"""Where an event is, by the id on its receipt: asked at the desk and at a terminal."""

from collections.abc import Sequence
from typing import Any

from clients.kafka.connect import answering
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Record
from desk.letters.service import Desk
from desk.waiting.service import Waiting
from desk.whereabouts.log_search import has_id, search, time_of
from desk.whereabouts.stages import Facts, Payload, StoredEvent, told
from shared.consumer_groups import of_job
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow import load_flow
from shared.model import Fields

_EVENTS = """
    SELECT event_id, type, entity_id, event_time, stored_at, position, origin,
           coalesce(revision, 0) AS revision, saw
    FROM headrace.event WHERE event_id = %s OR (event_id > %s AND event_id < %s)
    ORDER BY row_key LIMIT 1000
"""
_LETTERS = """
    SELECT id, status, stage, cause, detail, parked_at, payload
    FROM headrace.letter WHERE event_id = %s OR (event_id > %s AND event_id < %s)
    ORDER BY parked_at DESC LIMIT 100
"""


class BadPlaceError(Exception):
    """No payload of that id stands there."""


class Whereabouts:
    """KafkaAwayError or StoreAwayError where a server that the answer needs is not there."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._flow = load_flow(desk.settings.flow)
        self._topics = dict.fromkeys(row.topic for row in self._flow.endpoints)

    def find(self, event_id: str, place: str | None = None) -> Fields:
        """`place`: topic/partition/offset, as the receipt says. BadPlaceError."""
        payload_id = event_id.partition("#")[0]
        events, letters = self._events(payload_id), self._letters(payload_id)
        record, how = self._record(payload_id, place, events, letters)
        if record is None:
            return told(Facts(event_id, None, events, letters, searched=how))
        payload = self._payload(record)
        is_open = not events and not letters
        waiting = Waiting(self._desk).of(payload.entity_id) if is_open else None
        goes_on_at = self._enrich_goes_on_at(payload.place) if is_open else None
        return told(Facts(event_id, payload, events, letters, waiting, goes_on_at))

    def _record(
        self,
        event_id: str,
        place: str | None,
        events: Sequence[StoredEvent],
        letters: Sequence[Fields],
    ) -> tuple[Record | None, str]:
        places = [event.origin for event in events]
        places += [letter["payload"] for letter in letters if letter["payload"]]
        # what a fold has derived comes of an event
        known = [at for at in map(Position.parse, places) if at.topic in self._topics]
        if place is not None:
            at = self._place(place)
            record = self._desk.log.at([at]).get(at)
            if record is None or not has_id(record, event_id):
                raise BadPlaceError(f"at {place} stands no payload with the id {event_id}")
            return record, ""
        if known:
            return self._desk.log.at(known[:1]).get(known[0]), ""
        if events or letters:
            return None, ""
        time_ms = time_of(event_id)
        if time_ms is None:
            return None, (
                "it tells no time to look for it in the log: give the receipt's place, "
                "topic/partition/offset"
            )
        return search(self._desk.settings.kafka, self._flow.ingest_topics, event_id, time_ms)

    def _place(self, text: str) -> Position:
        try:
            place = Position.parse(text)
        except ValueError:
            raise BadPlaceError(f"{text!r} is no place: write topic/partition/offset") from None
        can_be = 0 <= place.partition < 1 << 31 and 0 <= place.offset < 1 << 63
        if place.topic not in self._topics or not can_be:
            known = ", ".join(self._topics)
            raise BadPlaceError(f"no payload stands at {text}: they are on {known}")
        return place

    def _payload(self, record: Record) -> Payload:
        kind = envelope.text(record.headers, envelope.TYPE)
        endpoint = self._flow.endpoint_of(record.position.topic, kind)
        return Payload(
            record.position,
            record.time_ms,
            endpoint.name if endpoint else "",
            (record.key or b"").decode(errors="backslashreplace"),
            len(record.value or b""),
        )

    def _enrich_goes_on_at(self, place: Position) -> int | None:
        kafka = self._desk.settings.kafka
        with answering(kafka), LogOffsets(kafka, of_job("enrich"), (place.topic,)) as log:
            return log.known_positions([place[:2]]).get(place[:2])

    def _events(self, event_id: str) -> list[StoredEvent]:
        rows = self._desk.book.rows(_EVENTS, *_ids(event_id))
        return [StoredEvent(*map(_text, row.values())) for row in rows]

    def _letters(self, event_id: str) -> list[Any]:
        return self._desk.book.rows(_LETTERS, *_ids(event_id))


def _ids(payload_id: str) -> tuple[str, str, str]:
    """Further events of one payload are called <id>#1 and so on."""
    return payload_id, f"{payload_id}#", f"{payload_id}$"


def _text(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
