"""Which event gave each field of a state its value: the entity's events folded once more. Pure.

In the order of their arrival: that is how a refold puts them, too. Where events of several types
were folded in another order, or by another version of the fold, a field may come out otherwise than
it is: then nothing is said of it.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from shared.events.envelope import EventRecord, event_value
from shared.events.event_reader import EventReader, NoEvent
from shared.folding.applier import Applier
from shared.folding.fold_error import first_snapshot
from shared.folding.snapshot import id_digest
from shared.model import Fields
from shared.timestamps import to_rfc3339

_AT_ONCE = 25  # then others may run
_AS_IT_BEGAN = "no event has changed it since the state began"
_ANOTHER_VALUE = (
    "the stored events, folded in the order of their arrival, give another value: the newest may "
    "not be stored yet, the fold may have changed, or its result hangs on the order of event types"
)


class Folded(NamedTuple):
    state: Fields
    by_field: Mapping[str, EventRecord]  # the last that changed it


def as_folded(
    events: Iterable[EventRecord], reader: EventReader, positions: Mapping[str, int]
) -> Iterator[EventRecord]:
    """In today's shape and in the order of a refold: those up to the positions of a snapshot."""
    for event in sorted(events, key=_order):
        topic, partition, offset = event.position
        if topic not in reader.types or offset > positions.get(f"{topic}/{partition}", -1):
            continue
        event_type = reader.types[topic].get(event.type)
        if event.shape == 0 and event_type is not None:
            event = event._replace(shape=event_type.shape)
        try:
            yield reader.read(event.position, event.entity_id.encode(), event_value(event))
        except NoEvent:
            continue  # fold has parked it


def _order(event: EventRecord) -> tuple[object, ...]:
    return event.arrived_ms, event.origin, event.position


def fold(applier: Applier, full_id: str, events: Iterable[EventRecord]) -> Folded:
    now = first_snapshot(applier.entity, full_id)
    by_field: dict[str, EventRecord] = {}
    if isinstance(now, str):  # its `initial` fails
        return Folded({}, by_field)
    for number, event in enumerate(events):
        before = now.state
        applier.fold(now, event, applier.mark(event), id_digest(event.id), [])
        for name in before.keys() | now.state.keys():
            if before.get(name) != now.state.get(name) or (name in before) != (name in now.state):
                by_field[name] = event
        if number % _AT_ONCE == 0:
            time.sleep(0)
    return Folded(now.state, by_field)


def told_causes(
    shown: Fields, folded: Folded, ingest_topics: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """What has set each field of the state that is shown, by field."""
    state = orjson.loads(orjson.dumps(folded.state))
    causes: dict[str, dict[str, Any]] = {}
    for name, value in shown.items():
        event = folded.by_field.get(name)
        if name not in state or state[name] != value:
            told: dict[str, Any] = {"event": None, "because": _ANOTHER_VALUE}
        elif event is None:
            told = {"event": None, "because": _AS_IT_BEGAN}
        else:
            told = {"event": _told_event(event, event.origin.topic in ingest_topics)}
        causes[name] = {"value": value, **told}
    return causes


def _told_event(event: EventRecord, is_of_payload: bool) -> dict[str, Any]:
    origin = str(event.origin)
    base, _, part = event.id.rpartition("#")
    payload_id = base if base and part.isdigit() else event.id
    of: dict[str, Any] = {"payload": {"id": payload_id, "origin": origin}}
    return {
        "id": event.id,
        "type": event.type,
        "time": to_rfc3339(event.time_ms),
        "arrived_at": to_rfc3339(event.arrived_ms),
        "position": str(event.position),
        **(of if is_of_payload else {"derived_from": origin}),
        **({"revision": event.revision} if event.revision else {}),
        **({"saw": event.saw} if event.saw else {}),
    }
