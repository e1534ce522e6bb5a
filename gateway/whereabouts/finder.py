"""Where an event is, by the id on its receipt: asked over HTTP, at the desk and at a terminal.

What PostgreSQL has is found by its indexes. The rest stands in the log, and is looked for about the
time at which the payload came: see LogSearch for how much of it, at most.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clients.kafka.records import Record
from clients.postgres.store import Connection
from gateway.whereabouts.facts import Event, Facts, Payload, Row, Waits
from gateway.whereabouts.heard import Heard, line_by_lane, line_in, lines_of
from gateway.whereabouts.later import Later
from gateway.whereabouts.log_clients import LogClients
from gateway.whereabouts.log_search import LogSearch, TooMuch, has_id, time_of
from gateway.whereabouts.places import place_of
from gateway.whereabouts.rows import Rows, StoredEvent
from gateway.whereabouts.stages import of_its_way
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.model import Fields
from shared.topic_names import gate_topic

_ID_CHARS_MAX = 600
_READ_AT_ONCE = 20  # events of one payload whose records are read
_SOON_MS = 500, 2_000  # before and after a record, what came of it
_LATER_MS = 500, 30_000
_NO_ID = "no receipt has such an id"
_NO_TIME = (
    "it tells no time to look for it in the log: give the receipt's place, topic/partition/offset"
)


class BadPlaceError(Exception):
    """No payload of that id stands there."""


class Asker(NamedTuple):
    """Who asks, and what that one may know."""

    sees: Callable[[str], bool]  # payloads of this entity, by its full id
    named: Callable[[str], str]  # how that one calls it; "": it is not named
    knows_hooks: bool


OPERATOR = Asker(lambda _: True, lambda full_id: full_id, knows_hooks=True)
# of a state topic and key
SnapshotOf = Callable[[str, bytes], bytes | None]


class Finder:
    """KafkaAwayError or StoreAwayError where a server that the answer needs is not there."""

    def __init__(self, flow: Flow, clients: LogClients, snapshot_of: SnapshotOf) -> None:
        self.flow = flow
        self._clients = clients
        self._snapshot_of = snapshot_of

    def find(
        self, on: Connection, event_id: str, place: str | None = None, asker: Asker = OPERATOR
    ) -> Facts:
        """`place`: topic/partition/offset, as the receipt says. BadPlaceError."""
        payload_id = event_id.partition("#")[0]
        if not payload_id or "\0" in event_id or len(event_id) > _ID_CHARS_MAX:
            return Facts(event_id, None, searched=_NO_ID)
        later = Later(self.flow, Rows(on), LogSearch(self._clients), self._snapshot_of)
        return _Question(self.flow, later, event_id, payload_id, asker).answer(place)


class _Question:
    def __init__(
        self, flow: Flow, later: Later, event_id: str, payload_id: str, asker: Asker
    ) -> None:
        self._flow = flow
        self._later = later
        self._rows, self._log = later.rows, later.log
        self._id, self._payload_id = event_id, payload_id
        self._asker = asker

    def answer(self, place: str | None) -> Facts:
        rows, letters = self._rows.events(self._payload_id), self._rows.letters(self._payload_id)
        if not self._asker.knows_hooks:  # they say what a receiver has answered
            letters = of_its_way(letters)
        record, how = self._record(place, rows, letters)
        if record is None:  # of what is left, whoever may see the payload may see all of it
            sees = self._asker.sees
            rows = [row for row in rows if sees(row.entity_id)]
            letters = [one for one in letters if one["entity_id"] and sees(one["entity_id"])]
        payload = None if record is None else self._payload(record)
        events, parts = self._events(rows, payload)
        facts = Facts(self._id, payload, events, parts, letters, searched=how)
        if payload is not None and not (of_its_way(letters) and not events):
            stored = [event.row for event in events if event.row]
            if not stored or len(stored) < (parts or 1):
                facts = self._with_what_the_log_tells(facts, payload)
        if facts.events:
            facts = self._later.follow(facts, rows, self._asker.knows_hooks)
        return self._named(facts)

    # the payload

    def _record(
        self, place: str | None, rows: Sequence[StoredEvent], letters: Sequence[Fields]
    ) -> tuple[Record | None, str]:
        if place is not None:
            given = self._place(place)
            record = self._log.at([given]).get(given)
            if record is None or not self._is_meant(record):
                raise BadPlaceError(f"at {place} stands no payload with the id {self._id}")
            return record, ""
        # of one that others own nothing may be told by how long the answer takes, or by which
        # server is asked: it is looked for as one of which nothing is known
        if self._sees_any(rows, letters):
            # what a fold has derived comes of an event
            known = [
                at
                for text in (*(row.origin for row in rows), *(one["payload"] for one in letters))
                if text and (at := place_of(text)) and at.topic in self._flow.ingest_topics
            ]
            record = self._log.at(known[:1]).get(known[0]) if known else None
            return (record if record is not None and self._is_meant(record) else None), ""
        time_ms = time_of(self._payload_id)
        if time_ms is None:
            return None, _NO_TIME
        return self._log.payload(self._flow.ingest_topics, time_ms, self._is_meant)

    def _sees_any(self, rows: Sequence[StoredEvent], letters: Sequence[Fields]) -> bool:
        whose = (*(row.entity_id for row in rows), *(one["entity_id"] for one in letters))
        return any(entity_id and self._asker.sees(entity_id) for entity_id in whose)

    def _is_meant(self, record: Record) -> bool:
        return has_id(record, self._payload_id) and self._asker.sees(_key(record))

    def _place(self, text: str) -> Position:
        place = place_of(text)
        if place is None:
            raise BadPlaceError(f"{text!r} is no place: write topic/partition/offset")
        can_be = 0 <= place.partition < 1 << 31 and 0 <= place.offset < 1 << 63
        if place.topic not in self._flow.ingest_topics or not can_be:
            known = ", ".join(self._flow.ingest_topics)
            raise BadPlaceError(f"no payload stands at {text}: they are on {known}")
        return place

    def _payload(self, record: Record) -> Payload:
        kind = envelope.text(record.headers, envelope.TYPE)
        endpoint = self._flow.endpoint_of(record.position.topic, kind)
        received = envelope.text(record.headers, envelope.RECEIVED) or ""
        return Payload(
            record.position,
            record.time_ms,
            endpoint.name if endpoint else "",
            _key(record),
            len(record.value or b""),
            int(received) if received.isdecimal() and len(received) <= 15 else None,
        )

    # its events

    def _events(
        self, rows: Sequence[StoredEvent], payload: Payload | None
    ) -> tuple[list[Event], int | None]:
        """With what their own records say."""
        places = [at for row in rows[:_READ_AT_ONCE] if (at := place_of(row.place))]
        found = self._log.at(places) if places else {}
        parts: int | None = None
        events = []
        for row in rows:
            its = Row(row.row_key, row.stored_at, None, "")
            kind = row.type, row.entity_id, row.place, row.time
            event = Event(row.id, *kind, None, row.revision, row.saw, its)
            at = place_of(row.place)
            record = found.get(at) if at else None
            if record is not None and (read := _read(record)) and read.id == row.id:
                event = event._replace(written_ms=record.time_ms)
                parts = read.parts
            if payload is not None and row.origin != str(payload.place):
                event = event._replace(repeats=row.origin)
            events.append(event)
        return events, parts

    def _with_what_the_log_tells(self, facts: Facts, payload: Payload) -> Facts:
        heard = Heard(self._flow, self._payload_id, str(payload.place))
        how = self._listen(heard, payload)
        known = {event.id: event for event in facts.events}
        events = [*known.values(), *(one for one in heard.events.values() if one.id not in known)]
        facts = facts._replace(
            events=events,
            parts=heard.parts or facts.parts,
            ended=None if of_its_way(facts.letters) else heard.ended,
            searched=how,
        )
        if events:
            return facts._replace(waits=self._waits_for_persist(events))
        waits = self._waits_for_enrich(payload)
        if waits is None and heard.waits is not None:
            waits = line_by_lane(heard.waits, payload.entity_id)
        goes_on_at = self._log.enrich_goes_on_at(payload.place)
        return facts._replace(waits=waits, enrich_goes_on_at=goes_on_at)

    def _listen(self, heard: Heard, payload: Payload) -> str:
        """What has come after it. Where that is much, only what is in its entity's partitions."""
        key = payload.entity_id.encode()
        for before_ms, after_ms in (_SOON_MS, _LATER_MS):
            window = payload.appended_ms - before_ms, payload.appended_ms + after_ms
            for of_key in (None, key):
                try:
                    for record in self._log.between(heard.topics, *window, of_key):
                        heard.hear(record)
                except TooMuch:
                    continue
                if heard.is_whole and (heard.events or heard.ended):
                    return ""
                break
            else:
                return f"more came within {after_ms // 1000} s after it than is looked through"
        return f"its events were looked for in the {_LATER_MS[1] // 1000} s after it"

    # lines

    def _waits_for_enrich(self, payload: Payload) -> Waits | None:
        if not self._flow.waits:
            return None
        keys = lines_of(payload.entity_id, self._payload_id)
        try:
            gates = [*self._log.latest(gate_topic("enrich"), keys)]
        except TooMuch:
            return None
        return line_in(gates, payload.entity_id, self._payload_id, payload.place)

    def _waits_for_persist(self, events: Sequence[Event]) -> Waits | None:
        topics = self._flow.event_topics
        for entity_id in dict.fromkeys(event.entity_id for event in events if not event.row):
            rows = self._rows.waiting(self._payload_id, entity_id, topics)
            own = next((row for row in rows if row.is_its_own), None)
            if own is None:
                continue
            same_log = [row for row in rows if row.place[:2] == own.place[:2]]
            first = own if own.is_alone else same_log[0]
            line = {"place": str(first.place), "payloads": len(same_log)}
            about = {"since": own.since, "next_try": first.next_try, "tries": first.tries}
            why = first.reason, first.detail
            return Waits("persist", *why, entity_id, line, about, first == own)
        return None

    # for whoever asks

    def _named(self, facts: Facts) -> Facts:
        named = self._asker.named
        payload, waits = facts.payload, facts.waits
        return facts._replace(
            payload=payload and payload._replace(entity_id=named(payload.entity_id)),
            waits=waits and waits._replace(entity_id=named(waits.entity_id)),
            events=[one._replace(entity_id=named(one.entity_id)) for one in facts.events],
            folded=[
                one._replace(entity_id=named(one.entity_id))
                for one in facts.folded
                if named(one.entity_id)
            ],
        )


def _key(record: Record) -> str:
    return (record.key or b"").decode(errors="backslashreplace")


def _read(record: Record) -> envelope.EventRecord | None:
    try:
        return envelope.read_event(record.position, record.value or b"")
    except ValueError:
        return None
