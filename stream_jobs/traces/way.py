"""What records tell of the way of payloads whose POST is traced. Pure.

Events, lanes and completions carry the trace. States and tries of webhooks do not: they are known
by the events that were heard of before them, of which the newest are remembered.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Record
from shared.events import envelope
from shared.events.envelope import EventRecord
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.forwarding.answer import HookVerdict
from shared.published.ledger import Verdict, lanes_of_events, lanes_of_payloads
from shared.published.traced import traced
from shared.topic_names import DELIVERY_TOPIC
from stream_jobs.traces.span import Attributes, Parent, Span, parent_in, span_id

_KNOWN_MAX = 50_000
_LINKS_MAX = 16
_ENRICH, _FOLD, _PERSIST, _RELAY, _FORWARD = "enrich", "fold", "persist", "relay", "forward"
_Key = tuple[str, bytes]  # topic, key


class _Unfolded(NamedTuple):
    """An event that a state is to have."""

    parent: Parent
    log: str
    offset: int
    since_ms: int
    type: str


class Way:
    def __init__(self, flow: Flow) -> None:
        self._readers = flow.readers
        self._states = {entity.topic: entity.name for entity in flow.entities}
        emitted = {name for entity in flow.entities for name in entity.emits}
        self._derived = {row.topic for row in flow.event_types if row.name in emitted}
        self._lanes = lanes_of_payloads(flow)
        self._parked_by = lanes_of_events(flow)
        of_topic = {
            **dict.fromkeys(flow.event_topics, self._event),
            **dict.fromkeys(self._states, self._state),
            **dict.fromkeys(flow.completion_topics, self._completion),
            **dict.fromkeys(self._lanes, self._lane),
            **dict.fromkeys(self._parked_by, self._parked),
            DELIVERY_TOPIC: self._try,
        }
        self._hear = {topic: of_topic[topic] for topic in traced(flow)}
        # by the id of what may be sent on: the span that made it, and when that was done
        self._known: OrderedDict[str, tuple[Parent, int]] = OrderedDict()
        self._unfolded: OrderedDict[_Key, list[_Unfolded]] = OrderedDict()

    @property
    def topics(self) -> list[str]:
        return [*self._hear]

    def hear(self, record: Record) -> list[Span]:
        """Whoever has written it: what cannot be read tells nothing."""
        try:
            return list(self._hear[record.position.topic](record))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return []

    def _event(self, record: Record) -> Iterator[Span]:
        parent, since_ms = parent_in(record.headers), None
        if parent is None and record.position.topic not in self._derived:
            return
        event = envelope.read_event(record.position, record.value or b"")
        if event.cause is not None:  # it follows from a state that another event has changed
            parent, since_ms = self._known.get(event.cause, (parent, None))
        if parent is None:
            return
        stage = _ENRICH if event.cause is None else _FOLD
        span = Span(
            parent,
            span_id(stage, parent.trace_id, event.id, str(event.revision)),
            stage,
            f"{stage} {event.type}" if event.cause is None else f"emit {event.type}",
            since_ms or event.arrived_ms,
            record.time_ms,
            {
                **_place(record),
                "headrace.event.id": event.id,
                "headrace.entity.id": event.entity_id,
                "headrace.payload.place": str(event.origin),
                **({"headrace.attempt": event.attempt} if event.attempt else {}),
            },
        )
        self._remember(event.id, span.as_parent, record.time_ms)
        self._expect_states(event, span.as_parent, record.time_ms)
        yield span

    def _remember(self, id_: str, parent: Parent, at_ms: int) -> None:
        self._known[id_] = parent, at_ms
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def _expect_states(self, event: EventRecord, parent: Parent, at_ms: int) -> None:
        log = f"{event.position.topic}/{event.position.partition}"
        for entity in self._readers.get(event.type, ()):
            its = self._unfolded.setdefault((entity.topic, event.entity_id.encode()), [])
            its.append(_Unfolded(parent, log, event.position.offset, at_ms, event.type))
        while len(self._unfolded) > _KNOWN_MAX:
            self._unfolded.popitem(last=False)

    def _state(self, record: Record) -> Iterator[Span]:
        topic, key = record.position.topic, record.key or b""
        waiting = self._unfolded.get((topic, key))
        if not waiting or record.value is None:
            return
        meta: Mapping[str, Any] = orjson.loads(record.value)[META]
        positions = meta["positions"]
        folded = [one for one in waiting if positions.get(one.log, -1) >= one.offset]
        left = [one for one in waiting if one not in folded]
        if left:
            self._unfolded[topic, key] = left
        else:
            del self._unfolded[topic, key]
        told = {
            **_place(record),
            "headrace.entity.id": key.decode(errors="replace"),
            "headrace.state.version": int(meta["version"]),
        }
        entity = self._states[topic]
        ids = {one: span_id(_FOLD, *one.parent, str(record.position)) for one in folded}
        for one in folded:
            beside = (Parent(its.parent.trace_id, ids[its]) for its in folded if its is not one)
            links = tuple(dict.fromkeys(beside))[:_LINKS_MAX]
            name = f"fold {one.type} into {entity}"
            yield Span(
                one.parent, ids[one], _FOLD, name, one.since_ms, record.time_ms, told, links=links
            )

    def _completion(self, record: Record) -> Iterator[Span]:
        parent = parent_in(record.headers)
        if parent is None:
            return
        said = orjson.loads(record.value or b"")
        stored_ms = round(datetime.fromisoformat(said["stored_at"]).timestamp() * 1000)
        parent, since_ms = self._known.get(said["event_id"], (parent, stored_ms))
        own_id = envelope.text(record.headers, envelope.ID) or str(record.position)
        told: Attributes = {
            "headrace.event.id": said["event_id"],
            "headrace.entity.id": said["entity_id"],
            "headrace.row.key": int(said["row_key"]),
        }
        stored = Span(
            parent,
            span_id(_PERSIST, parent.trace_id, own_id),
            _PERSIST,
            f"persist {said['type']}",
            since_ms,
            stored_ms,
            told,
        )
        yield stored
        sent = Span(
            stored.as_parent,
            span_id(_RELAY, parent.trace_id, own_id),
            _RELAY,
            f"send completion of {said['type']}",
            stored_ms,
            record.time_ms,
            {**told, **_place(record)},
        )
        self._remember(own_id, sent.as_parent, record.time_ms)
        yield sent

    def _try(self, record: Record) -> Iterator[Span]:
        """The spans of a try of a webhook."""
        said = orjson.loads(record.value or b"")
        known = self._known.get(said["event_id"])
        if known is None:
            return
        parent, _ = known
        is_taken = said["verdict"] == HookVerdict.DONE.value
        yield Span(
            parent,
            span_id(_FORWARD, str(record.position)),
            _FORWARD,
            f"send to {said['hook']}",
            int(said["at_ms"]),
            int(said["at_ms"]) + round(said["ms"]),
            {
                "headrace.hook": str(said["hook"]),
                "headrace.try": int(said["try"]),
                **({"http.response.status_code": int(said["status"])} if said["status"] else {}),
            },
            "" if is_taken else str(said["said"]),
        )

    def _lane(self, record: Record) -> Iterator[Span]:
        parked = self._lanes[record.position.topic] is Verdict.PARKED
        yield from self._of_lane(record, _ENRICH, is_error=parked)

    def _parked(self, record: Record) -> Iterator[Span]:
        yield from self._of_lane(record, self._parked_by[record.position.topic], is_error=True)

    def _of_lane(self, record: Record, stage: str, *, is_error: bool) -> Iterator[Span]:
        parent = parent_in(record.headers)
        if parent is None:
            return
        reason = envelope.text(record.headers, envelope.REASON) or "dropped on purpose"
        detail = envelope.text(record.headers, envelope.DETAIL) or reason
        yield Span(
            parent,
            span_id(stage, str(record.position)),
            stage,
            f"{stage}: {reason}",
            record.time_ms,
            record.time_ms,
            {**_place(record), "headrace.reason": reason},
            detail if is_error else "",
        )


def _place(record: Record) -> dict[str, str | int]:
    place = record.position
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": place.topic,
        "messaging.destination.partition.id": str(place.partition),
        "messaging.kafka.offset": place.offset,
    }


def by_time(records: Iterable[Record]) -> list[Record]:
    """So that what came of an event is heard of after it, though topics have no common order."""
    return sorted(records, key=lambda one: one.time_ms)
