"""In which line a payload waits: in that of its entity or, where order does not matter, in one of
its own. Records of the lane, gates and lines have the key of the line. Pure."""

from collections.abc import Callable, Iterable

from clients.kafka.records import Payload
from shared.events import envelope
from shared.flow_table import Flow
from shared.ids import line_alone, tenant_of

_ALONE = "\n"  # see line_alone
_SAID = " "  # so that a terminal can show it, and an operator can name it

# None: it can have none, and goes to the dead letters
KeyOf = Callable[[Payload], str | None]


def entity_key(payload: Payload) -> str | None:
    try:
        key = payload.key.decode() if payload.key and not payload.lacks else None
    except UnicodeDecodeError:
        return None
    return None if key is None or _ALONE in key else key


def key_of_line(flow: Flow) -> KeyOf:
    if not any(row.retry and not row.retry.in_order for row in flow.endpoints):
        return entity_key

    def key_of(payload: Payload) -> str | None:
        entity = entity_key(payload)
        kind = envelope.text(payload.headers, envelope.TYPE)
        endpoint = flow.endpoint_of(payload.position.topic, kind)
        if entity is None or not (endpoint and endpoint.retry) or endpoint.retry.in_order:
            return entity
        event_id = envelope.text(payload.headers, envelope.ID) or str(payload.position)
        return alone(entity, event_id)

    return key_of


def alone(entity_id: str, its_id: str) -> str:
    """The key of what waits without order."""
    return line_alone(entity_id, its_id)


def is_alone(key: str) -> bool:
    return _ALONE in key


def entity_of(key: str) -> str:
    return key.partition(_ALONE)[0]


def payload_alone(key: str) -> str | None:
    """The id of a payload that has a line of its own."""
    return key.partition(_ALONE)[2] or None


def tenant_of_line(key: str) -> str:
    return tenant_of(entity_of(key))


def said(key: str) -> str:
    """ "door-4", or "door-4 event-9"."""
    return key.replace(_ALONE, _SAID, 1)


def keys_meant(name: str, known: Iterable[str]) -> list[str]:
    """All lines of the entity with this name, or the one line of this name."""
    return sorted(key for key in known if name in (entity_of(key), said(key)))
