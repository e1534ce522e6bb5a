"""What of an event a hook gets: whether it is one for it, and the request's headers and body. Pure.

The bodies are CloudEvents 1.0 over HTTP, structured (the whole event is the body) or binary (its
attributes are headers, its data is the body).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

import orjson

from shared.events import envelope
from shared.events.envelope import Header
from shared.forwarding.conditions import chosen, condition
from shared.forwarding.hook import Hook
from shared.forwarding.state_event import STATE
from shared.ids import tenant_of

# of its type, by what it is one of; an event's begins with neither, for its name has no dot
_BEGINS = {"completions": "completion.", "states": STATE}
# attributes that are sent; others are between our own parts
_SENT = ("id", "type", "source", "subject", "time", "tenant", "revision", "payloadsha256")
_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~ "


class CloudEvent:
    def __init__(self, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> None:
        self._key, self._value, self._headers = key, value, headers

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        found = {
            name.removeprefix("ce_"): value.decode(errors="replace")
            for name, value in self._headers
            if name.startswith("ce_")
        }
        told = {name: found[name] for name in _SENT if found.get(name)}
        return {"specversion": "1.0", **told}

    @property
    def id(self) -> str:
        return self.attributes.get("id", "")

    @cached_property
    def entity(self) -> str:
        """With its tenant."""
        return (self._key or b"").decode(errors="replace")

    @property
    def own_id(self) -> str:
        """Its entity's, as the tenant calls it."""
        return self.entity.removeprefix(f"{tenant_of(self.entity)}/")

    @property
    def type(self) -> str:
        """For a state its entity's name; for a completion the type of what is a row now."""
        return self.attributes.get("type", "").removeprefix(_BEGINS.get(self.of, ""))

    @cached_property
    def of(self) -> str:
        """As a hook says it."""
        told = self.attributes.get("type", "")
        return next((of for of, begin in _BEGINS.items() if told.startswith(begin)), "events")

    @cached_property
    def data(self) -> dict[str, Any]:
        """For an event its own fields; for a completion or a state all that it says."""
        try:
            value = orjson.loads(self._value or b"")
        except orjson.JSONDecodeError:
            return {}
        data = value.get("data", value) if isinstance(value, dict) else None
        return data if isinstance(data, dict) else {}

    @property
    def fields(self) -> dict[str, Any]:
        """Which conditions look at, and of which a hook may choose some."""
        fields = self.data.get("state", {}) if self.of == "states" else self.data
        return fields if isinstance(fields, dict) else {}

    def data_of(self, names: tuple[str, ...]) -> dict[str, Any]:
        """With these fields alone; (): with all."""
        if not names:
            return self.data
        if self.of != "states":
            return chosen(self.fields, names)
        state = {"state": chosen(self.fields, names)} if "state" in self.data else {}
        return {**self.data, **state}

    @property
    def trace(self) -> str | None:
        return envelope.text(self._headers, envelope.TRACE_PARENT)


def is_for(hook: Hook, event: CloudEvent) -> bool:
    if not event.id or event.of != hook.of:
        return False
    if hook.types and event.type not in hook.types:
        return False
    if hook.tenant is not None and tenant_of(event.entity) != hook.tenant:
        return False
    if hook.entities and event.own_id not in hook.entities:
        return False
    return all(condition(text).holds(event.fields) for text in hook.where)


def request(hook: Hook, events: Sequence[CloudEvent]) -> tuple[dict[str, str], bytes]:
    """Headers, but for those of the signature, and body: the same at each try of the same ones."""
    if hook.batch > 1:
        wholes = [_whole(event, event.data_of(hook.fields)) for event in events]
        return {"content-type": "application/cloudevents-batch+json"}, orjson.dumps(wholes)
    (event,) = events
    data = event.data_of(hook.fields)
    trace = {"traceparent": event.trace} if event.trace and event.trace.isascii() else {}
    if hook.shape == "binary":
        attributes = {f"ce-{name}": _as_header(said) for name, said in event.attributes.items()}
        return {**attributes, **trace, "content-type": "application/json"}, orjson.dumps(data)
    headers = {**trace, "content-type": "application/cloudevents+json"}
    return headers, orjson.dumps(_whole(event, data))


def message_id(events: Sequence[CloudEvent]) -> str:
    """The same at each try of the same events: of one it is its own."""
    more = len(events) - 1
    return f"{events[0].id}+{more}" if more else events[0].id


def _whole(event: CloudEvent, data: dict[str, Any]) -> dict[str, Any]:
    return {**event.attributes, "datacontenttype": "application/json", "data": data}


def _as_header(said: str) -> str:
    """As CloudEvents has it: percent-encoded where it is no plain ASCII."""
    return quote(said, safe=_SAFE)
