"""What has come of events: states that have them, completions, and tries to send them on."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from clients.kafka.records import LogRange, Record
from gateway.whereabouts.facts import Delivery, Event, Facts, Folded
from gateway.whereabouts.log_search import LogSearch, TooMuch
from gateway.whereabouts.places import place_of
from gateway.whereabouts.rows import Rows, StoredEvent
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.ids import completion_id
from shared.model import Fields
from shared.timestamps import is_time_ms
from shared.topic_names import DELIVERY_TOPIC

_BEFORE_MS, _AFTER_MS = 1_000, 30_000
# after its row, by another clock: most come within the first of these
_COMPLETED_MS = (-5, 500), (501, 3_000), (3_001, _AFTER_MS), (-_BEFORE_MS, -6)
_FOLLOWED_MAX = 20  # events of one payload
_OF_DELIVERY = "hook", "try", "status", "verdict"


class Later:
    def __init__(
        self,
        flow: Flow,
        rows: Rows,
        log: LogSearch,
        snapshot_of: Callable[[str, bytes], bytes | None],
    ) -> None:
        self.rows, self.log = rows, log
        self._snapshot_of = snapshot_of
        self._completions = {row.name: row.completion_topic for row in flow.event_types}
        self._readers = flow.readers

    def follow(self, facts: Facts, rows: Sequence[StoredEvent], knows_hooks: bool) -> Facts:
        events: list[Event] = []
        deliveries: list[Delivery] = []
        stored = {row.id: row for row in rows}
        folded = [
            one
            for event in facts.events[:_FOLLOWED_MAX]
            for one in self._folded(event, stored.get(event.id))
        ]
        for event in facts.events:
            row = stored.get(event.id)
            if event.row is not None and event.type in self._completions:
                topic = self._completions[event.type]
                event = event._replace(row=event.row._replace(completion_topic=topic))
            if len(events) < _FOLLOWED_MAX and self.log.has_time():
                event, its = self._told_later(event, row, knows_hooks)
                deliveries += its
            events.append(event)
        events = self._with_what_is_to_be_sent(events, stored)
        return facts._replace(events=events, folded=folded, deliveries=deliveries)

    def _with_what_is_to_be_sent(
        self, events: Sequence[Event], stored: Mapping[str, StoredEvent]
    ) -> list[Event]:
        """Asks whether the completions are sent of those where none was come upon."""
        asked = [
            stored[event.id]
            for event in events
            if event.row is not None and event.row.is_completed is None and event.id in stored
        ]
        is_completed = self.rows.completed(asked[:_FOLLOWED_MAX])
        return [
            event._replace(row=event.row._replace(is_completed=is_completed[event.id]))
            if event.row is not None and event.id in is_completed
            else event
            for event in events
        ]

    def _folded(self, event: Event, row: StoredEvent | None) -> Iterator[Folded]:
        place = place_of(event.place)
        if place is None:
            return
        since_ms = row.arrived_ms if row else event.written_ms or 0
        for entity in self._readers.get(event.type, ()):
            of = event.id, entity.name, event.entity_id
            known = self._snapshot_of(entity.topic, event.entity_id.encode())
            version = None if known is None else version_with(known, event.id, place)
            if entity.history and (version or known is None):
                kept = self.rows.version_with(entity.name, event.entity_id, place, since_ms)
                if kept is not None:
                    yield Folded(*of, *kept)
                    continue
            if version is not None:
                yield Folded(*of, version, None, is_exact=False)

    def _told_later(
        self, event: Event, row: StoredEvent | None, knows_hooks: bool
    ) -> tuple[Event, list[Delivery]]:
        """On the topics of its completion and of deliveries, in the partitions of its entity."""
        told_ms = [ms for ms in (event.written_ms, row.stored_ms if row else None) if ms]
        if not told_ms:
            return event, []
        key, its_id = event.entity_id.encode(), completion_id(event.id, event.revision)
        windows_ms = {DELIVERY_TOPIC: (min(told_ms) - _BEFORE_MS, max(told_ms) + _AFTER_MS)}
        if row is not None and event.row is not None:
            at_once = _window(row.stored_ms, _COMPLETED_MS[0])
            windows_ms[event.row.completion_topic] = at_once
        try:
            ranges = self.log.ranges(windows_ms, key)  # of both topics at once
        except TooMuch:
            return event, []
        if row is not None and event.row is not None:
            topic = event.row.completion_topic
            its = [one for one in ranges if one.topic == topic]
            completion = self._completion(key, topic, row.stored_ms, its, its_id)
            if completion is not None:
                completed = event.row._replace(
                    is_completed=True,
                    completed_ms=completion.time_ms,
                    completion_place=str(completion.position),
                )
                event = event._replace(row=completed)
        deliveries: list[Delivery] = []
        try:
            for record in self.log.read(one for one in ranges if one.topic == DELIVERY_TOPIC):
                deliveries += delivery_in(record, event.id, (event.id, its_id), knows_hooks)
        except TooMuch:
            pass  # those that were found are told
        return event, deliveries

    def _completion(
        self, key: bytes, topic: str, stored_ms: int, at_once: Sequence[LogRange], its_id: str
    ) -> Record | None:
        """Most come at once: then little is read."""
        try:
            for number, later_ms in enumerate(_COMPLETED_MS):
                window_ms = {topic: _window(stored_ms, later_ms)}
                ranges = self.log.ranges(window_ms, key) if number else at_once
                for record in self.log.read(ranges, key):
                    if envelope.text(record.headers, envelope.ID) == its_id:
                        return record
        except TooMuch:
            pass  # it is told without its place
        return None


def _window(at_ms: int, later_ms: tuple[int, int]) -> tuple[int, int]:
    return at_ms + later_ms[0], at_ms + later_ms[1]


def version_with(snapshot: bytes, event_id: str, place: Position) -> int | None:
    """The version of a state that has the event, by its own note of how far its logs are in it.
    While it is folded anew, that note is ahead of what is in it."""
    try:
        meta = orjson.loads(snapshot)[META]
        upto = meta["positions"].get(f"{place.topic}/{place.partition}", -1)
        is_in = upto >= place.offset and not meta.get("asked")
        is_parked = event_id in meta.get("parked", ())
        return meta["version"] if is_in and not is_parked else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def delivery_in(
    record: Record, event_id: str, ids: Sequence[str], knows_hooks: bool
) -> Iterator[Delivery]:
    """None where it is another one's."""
    try:
        told: Fields = orjson.loads(record.value or b"")
        if told["event_id"] in ids and is_time_ms(told["at_ms"]):
            shown = {name: told.get(name) for name in _OF_DELIVERY} if knows_hooks else {}
            of = {} if told["event_id"] == event_id else {"of": "completion"}
            yield Delivery(event_id, told["at_ms"], {**shown, **of})
    except (ValueError, KeyError, TypeError):
        return
