"""The fields of a state by which GET /state/<entity> finds and sorts: which kind each is, as the
state's contract says, and what a state has in it. Pure."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from shared.contract import contract_of
from shared.model import Aggregate, Entity, Fields
from shared.tables.columns import FITS, kind_of

FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
ID = "id"  # what every state has, and no row need declare
# a longer one is not found: each index would hold it, too
TEXT_CHARS_MAX = 1_024
_FIELDS_MAX = 16


class IndexedField(NamedTuple):
    name: str  # with dots between where it is inside of another
    kind: str

    def value_in(self, state: Fields) -> Any:
        """None where there is none, or one that the contract does not have there."""
        value: Any = state
        for part in self.name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None or not FITS[self.kind](value):
            return None
        return None if isinstance(value, str) and len(value) > TEXT_CHARS_MAX else value


class IndexedStates(NamedTuple):
    """The indexed fields of one entity or aggregate."""

    entity: str
    topic: str
    fields: tuple[IndexedField, ...]

    @property
    def declared(self) -> str:
        """An index that was made of anything else is made anew."""
        return orjson.dumps([self.entity, [[*field] for field in self.fields]]).decode()

    def kind(self, name: str) -> str | None:
        return next((field.kind for field in self.fields if field.name == name), None)

    def values_in(self, state: Fields) -> list[Any]:
        return [field.value_in(state) for field in self.fields]


def indexed_states(rows: Iterable[Entity | Aggregate]) -> tuple[IndexedStates, ...]:
    """The indexed states of those rows that declare indexed fields."""
    return tuple(
        IndexedStates(row.name, row.topic, _indexed_fields(row)) for row in rows if row.indexed
    )


def refuse_bad_indexed_fields(row: Entity | Aggregate) -> None:
    """ValueError says what is wrong, and what there is."""
    if not row.indexed:
        return
    if row.state is None:
        raise ValueError(
            f"{row.name}: indexed needs the state's contract, which says what its fields are: give "
            "it `state`"
        )
    if len(row.indexed) > _FIELDS_MAX:
        raise ValueError(
            f"{row.name}: {len(row.indexed)} indexed fields are too many, {_FIELDS_MAX} may be: "
            "each is an index that every change of a state writes to"
        )
    for name in row.indexed:
        if row.indexed.count(name) > 1:
            raise ValueError(f"{row.name}: indexed names {name!r} twice")
        if name == ID:
            raise ValueError(
                f"{row.name}: a state is always found and sorted by its id: leave {ID!r} out of "
                "indexed"
            )
    _indexed_fields(row)


def _indexed_fields(row: Entity | Aggregate) -> tuple[IndexedField, ...]:
    schema = contract_of(row.state).json_schema()
    definitions = schema.get("$defs", {})
    return tuple(
        IndexedField(name, _kind(row.name, name, schema, definitions)) for name in row.indexed
    )


def _kind(entity: str, name: str, schema: Fields, definitions: Fields) -> str:
    found, place = schema, ""
    for part in name.split("."):
        fields = _fields(found, definitions)
        if part not in fields or not FIELD.fullmatch(name):
            known = ", ".join(f"{place}{one}" for one in fields) or "none"
            where = f"in {place.rstrip('.')!r} of" if place else "in"
            raise ValueError(
                f"{entity}: indexed names {name!r}, and there is no such field {where} the state's "
                f"contract; there are: {known}"
            )
        found, place = fields[part], f"{place}{part}."
    kind = kind_of(found, definitions)
    if kind not in FITS:
        raise ValueError(
            f"{entity}: indexed names {name!r}, which is no text, number or truth value by the "
            "state's contract; of what is inside of another, name the field with dots: outer.inner"
        )
    return kind


def fields_of_state(row: Entity | Aggregate) -> tuple[str, ...]:
    """As its contract has them."""
    schema = contract_of(row.state).json_schema()
    return tuple(_fields(schema, schema.get("$defs", {})))


def _fields(schema: Fields, definitions: Fields) -> Fields:
    if "$ref" in schema:
        return _fields(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    several = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(several) == 1:
        return _fields(several[0], definitions)
    found: Fields = schema.get("properties", {})
    return found
