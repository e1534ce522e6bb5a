"""The columns of a table of events: those that every event has, then the fields of `data` as the
contracts of its types have them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson

from shared.contract import contract_of
from shared.model import EventType, Fields

# beside the fields of `data`; what stands in a column of its own, and what has none
OF_EACH_EVENT = {
    "event_id": "string",
    "type": "string",
    "entity_id": "string",
    "tenant": "string",
    "time": "timestamp",
    "arrived": "timestamp",
    "origin_topic": "string",
    "origin_partition": "int",
    "origin_offset": "bigint",
    "revision": "bigint",
}
REST, DAY = "rest_json", "day"
_OURS = {*OF_EACH_EVENT, REST, DAY}
_BIGINT_END = 1 << 63
_JSON = "json"


class Column(NamedTuple):
    field: str  # of `data`
    name: str
    kind: str


def _text(value: Any) -> bool:
    return type(value) is str


def _whole(value: Any) -> bool:
    return type(value) is int and -_BIGINT_END <= value < _BIGINT_END


def _number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= 1 << 53)


def _truth(value: Any) -> bool:
    return type(value) is bool


# what a contract says of one value, and which values are that
FITS: Mapping[str, Callable[[Any], bool]] = {
    "string": _text,
    "bigint": _whole,
    "double": _number,
    "boolean": _truth,
}
_BY_JSON_TYPE = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}


def columns_of(types: tuple[EventType, ...]) -> tuple[Column, ...]:
    """ValueError where two fields cannot share a table."""
    found: dict[str, Column] = {}
    for row in types:
        for field, kind in _fields(row).items():
            name = f"data_{field}" if field.lower() in _OURS else field
            column = Column(field, name, kind)
            known = found.setdefault(name.lower(), column)
            if known.field != field:
                raise ValueError(
                    f"its fields {known.field!r} and {field!r} would be one column, {name!r}"
                )
            if known.kind != kind:
                raise ValueError(
                    f"{field!r} is {known.kind} in one of its event types and {kind} in "
                    f"{row.name}: give them a row each"
                )
    return tuple(found.values())


def values_of(columns: tuple[Column, ...], data: Fields) -> tuple[list[Any], str | None]:
    """One of each column, and what has none, or another type than its column has."""
    rest = dict(data)
    values: list[Any] = []
    for column in columns:
        value = rest.get(column.field)
        if value is not None and column.kind == _JSON:
            value = orjson.dumps(value).decode()
        elif value is not None and not FITS[column.kind](value):
            values.append(None)
            continue
        values.append(value)
        rest.pop(column.field, None)
    return values, orjson.dumps(rest).decode() if rest else None


def sql_type(kind: str) -> str:
    return "string" if kind == _JSON else kind


@cache
def _fields(row: EventType) -> Mapping[str, str]:
    """The fields of a row by its type. Of one without a contract nothing is known: all of it is the
    rest."""
    if row.data is None:
        return {}
    schema = contract_of(row.data).json_schema()
    return {
        name: kind_of(its, schema.get("$defs", {}))
        for name, its in schema.get("properties", {}).items()
    }


def kind_of(schema: Fields, definitions: Fields) -> str:
    if "$ref" in schema:
        return kind_of(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        kinds = {kind_of(one, definitions) for one in several if one.get("type") != "null"}
        if kinds == {"bigint", "double"}:
            return "double"
        return kinds.pop() if len(kinds) == 1 else _JSON
    return _BY_JSON_TYPE.get(schema.get("type", ""), _JSON)
