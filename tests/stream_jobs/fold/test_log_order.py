"""Events of a bucket come in any order; a fold sees each entity's in the order of the log."""

import random

from shared.events.envelope import EventRecord, Position
from stream_jobs.fold.log_order import in_log_order


def _event(offset: int, kind: str = "reading", entity_id: str = "one") -> EventRecord:
    place = Position("event.all.v1", 0, offset)
    return EventRecord(place, entity_id, f"{offset}", kind, 0, 0, place, 1, {})


def test_each_entity_s_events_are_in_the_order_of_the_log_however_they_came() -> None:
    events = [_event(offset, "moved" if offset % 3 else "reading") for offset in range(50)]
    random.shuffle(events)
    folded_by = {"reading": ["device", "area"], "moved": ["device"]}
    ordered = in_log_order({"one": events, "two": [_event(7, entity_id="two")]}, folded_by)
    offsets = {key: [event.position.offset for event in own] for key, own in ordered.items()}
    assert offsets == {
        ("device", "one"): list(range(50)),
        ("area", "one"): list(range(0, 50, 3)),
        ("device", "two"): [7],
        ("area", "two"): [7],
    }
