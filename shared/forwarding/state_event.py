"""A record of a state's topic as the event that hooks get of it: "this is its state now". Pure."""

from typing import NamedTuple

import orjson

from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.folding.snapshot import Facts, read_facts_with_meta
from shared.folding.told_state import told_state
from shared.ids import derived_event_id, tenant_of
from shared.model import Fields
from shared.timestamps import to_rfc3339

STATE = "state."  # before the entity's name it is the event's type
# an entity that comes back after it was forgotten counts its versions anew
_OF_ITS_LIFE = ("arrived_ms", "ended_ms")


class StateEvent(NamedTuple):
    """What would stand on a topic of events."""

    value: bytes
    headers: list[Header]


def state_event(
    entity: str, place: Position, key: bytes | None, value: bytes | None, at_ms: int
) -> StateEvent | None:
    """None where it is no snapshot, whoever may have written it. `at_ms`: when it was."""
    try:
        full_id = (key or b"").decode()
        known = None if value is None else read_facts_with_meta(value)
    except ValueError:
        return None
    if known is None:
        # it says nothing by which one that is written twice could be known
        event_id = derived_event_id(place.topic, full_id, str(place), str(at_ms))
        data, time_ms = told_state(entity, full_id, at_ms, None, {}), at_ms
    else:
        facts, meta = known
        event_id = _id(place.topic, full_id, facts, meta)
        data = told_state(entity, full_id, at_ms, facts, meta)
        time_ms = at_ms if facts.event_time_ms is None else facts.event_time_ms
    tenant = tenant_of(full_id)
    headers = [
        (envelope.SPEC_VERSION, b"1.0"),
        (envelope.ID, event_id.encode()),
        (envelope.TYPE, f"{STATE}{entity}".encode()),
        (envelope.SOURCE, f"/{place.topic}".encode()),
        (envelope.SUBJECT, full_id.encode()),
        (envelope.TIME, to_rfc3339(time_ms).encode()),
        (envelope.CONTENT_TYPE, b"application/json"),
        *([(envelope.TENANT, tenant.encode())] if tenant else []),
    ]
    return StateEvent(orjson.dumps({"id": event_id, "data": data}), headers)


def _id(topic: str, full_id: str, facts: Facts, meta: Fields) -> str:
    """The same however often a version is written."""
    life = (str(meta.get(name)) for name in _OF_ITS_LIFE)
    return derived_event_id(topic, full_id, str(facts.version), str(facts.event_time_ms), *life)
