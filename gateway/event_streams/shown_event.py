"""What a reader is shown of an event. Pure."""

from typing import NamedTuple

from shared.events.envelope import Position, event_value
from shared.events.event_reader import EventReader, NoEvent
from shared.ids import full_id, tenant_of


class Shown(NamedTuple):
    """An event as it is sent, but for the id, which depends on what else its reader reads."""

    type: str
    data: bytes


def shown(reader: EventReader, position: Position, key: bytes, value: bytes) -> Shown | None:
    """In today's shape, under the id by which its tenant knows it. None: it is no event, and fold
    or persist parks it."""
    try:
        event = reader.read(position, key, value)
    except NoEvent:
        return None
    if tenant := tenant_of(event.entity_id):
        own_id = event.entity_id.removeprefix(full_id(tenant, ""))
        event = event._replace(entity_id=own_id)
    # orjson's bytes keep the kilobytes of the buffer that they were made in
    return Shown(event.type, b"%b" % event_value(event))
