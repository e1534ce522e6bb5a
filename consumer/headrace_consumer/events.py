"""Records of Kafka -> events, their data in the shape that the user gives. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

Data = TypeVar("Data")
Fields = dict[str, Any]
Upcast = Callable[[str, int, Fields], Fields]

_ID, _TYPE, _SUBJECT, _REVISION = "ce_id", "ce_type", "ce_subject", "ce_revision"
_REVISION_DIGITS_MAX = 9


class Unreadable(Exception):  # noqa: N818 - it is what the record is
    """What this record holds can never be given to the handler."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Position(NamedTuple):
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Record(NamedTuple):
    """As Kafka has it."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    lacks: str = ""  # why its headers cannot be read


@dataclass(frozen=True, slots=True)
class Event(Generic[Data]):
    """An event, a completion or a state. `data` is an event's `data`, or else the whole value; None
    where the value is null, which on a state's topic means that the entity is gone."""

    id: str  # the same each time that it is written; without a `ce_id`, the position
    type: str  # `ce_type`; without one, the topic's name
    entity_id: str
    data: Data
    time_ms: int | None  # of an event: when it happened
    revision: int  # 0, or the number of the correction
    position: Position
    headers: Mapping[str, bytes]
    about: str = ""  # of an event's completion, the id of that event

    @property
    def has_id(self) -> bool:
        return _ID in self.headers


class Reader:
    def __init__(
        self, types: Mapping[str, Any] | None = None, upcast: Upcast | None = None
    ) -> None:
        """`types`: what the data of each type is to be, a pydantic model, a dataclass or a
        TypedDict; `dict` leaves it as it is. Other types are passed over. None: all types, as they
        are. `upcast`: (type, shape, data) -> data in today's shape."""
        self._adapters: dict[str, TypeAdapter[Any]] | None = None
        if types is not None:
            self._adapters = {name: TypeAdapter(shape) for name, shape in types.items()}
        self._upcast = upcast

    def read(self, record: Record) -> Event[Any] | None:
        """None: nobody asked for its type. Unreadable says why it is nothing that was asked for."""
        if record.lacks:
            raise Unreadable("bad_headers", record.lacks)
        headers = dict(reversed(record.headers))  # of a name that comes twice, the first value
        kind = _text(headers, _TYPE) or record.position.topic
        adapter = None
        if self._adapters is not None and (adapter := self._adapters.get(kind)) is None:
            return None
        value = _value(record.value)
        data, time_ms = value, None
        if _is_event(value, kind):
            data, time_ms = value["data"], value["time_ms"]
            if self._upcast:
                data = self._upcast(kind, value.get("shape", 1), data)
        revision = _text(headers, _REVISION) or ""
        is_number = revision.isdecimal() and len(revision) <= _REVISION_DIGITS_MAX
        return Event(
            _text(headers, _ID) or str(record.position),
            kind,
            _text(headers, _SUBJECT) or (record.key or b"").decode(errors="replace"),
            data if adapter is None or data is None else _typed(adapter, data),
            time_ms,
            int(revision) if is_number else 0,
            record.position,
            headers,
            str(value.get("event_id", "")) if _is_completion(value, kind) else "",
        )


def _value(raw: bytes | None) -> Any:
    if raw is None:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Unreadable("not_json", str(error)) from error


def _is_event(value: Any, kind: str) -> bool:
    if not isinstance(value, dict) or value.get("type") != kind:
        return False
    return "data" in value and "time_ms" in value


def _is_completion(value: Any, kind: str) -> bool:
    return isinstance(value, dict) and kind.startswith("completion.")


def _typed(adapter: TypeAdapter[Any], data: Any) -> Any:
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Unreadable("off_contract", f"{place}: {first['msg']}") from error


def _text(headers: Mapping[str, bytes], name: str) -> str | None:
    found = headers.get(name)
    return None if found is None else found.decode(errors="replace")
