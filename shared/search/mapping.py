"""How an index understands documents: the fields of a state as its contract has them. Pure."""

from typing import Any

from shared.contract import contract_of
from shared.model import Aggregate, Entity, Fields

_KEYWORD: Fields = {"type": "keyword", "ignore_above": 1_024}
_TEXT: Fields = {**_KEYWORD, "fields": {"text": {"type": "text"}}}
_DATE: Fields = {"type": "date"}
_LONG: Fields = {"type": "long"}
_OF_EACH: Fields = {
    "entity": _KEYWORD,
    "id": _KEYWORD,
    "tenant": _KEYWORD,
    "version": _LONG,
    "event_time": _DATE,
    "updated_at": _DATE,
    "late": _LONG,
    "clock_off": _LONG,
    "refused": {"type": "text"},
    # kept, and not looked at
    "state_json": {"type": "keyword", "index": False, "doc_values": False},
}
_BY_JSON_TYPE: dict[str, Fields] = {
    "string": _TEXT,
    "integer": _LONG,
    "number": {"type": "double"},
    "boolean": {"type": "boolean"},
}


def mapping_of(row: Entity | Aggregate) -> Fields:
    """What the contract does not tell the index finds out for itself, but for dates: a text that
    looks like one today need not be one tomorrow."""
    state: Fields = {"type": "object"}
    if row.state is not None:
        schema = contract_of(row.state).json_schema()
        state = _field(schema, schema.get("$defs", {}), 0) or state
    return {"date_detection": False, "properties": {**_OF_EACH, "state": state}}


_DEPTH_MAX = 16  # a contract may be of itself


def _field(schema: Fields, definitions: Fields, depth: int) -> Fields | None:
    """None: it is not known, or of several kinds."""
    if depth > _DEPTH_MAX:
        return None
    if "$ref" in schema:
        found = definitions[schema["$ref"].rpartition("/")[2]]
        return _field(found, definitions, depth + 1)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [_field(one, definitions, depth) for one in several if one.get("type") != "null"]
        if {str(kind) for kind in kinds} == {str(_LONG), str(_BY_JSON_TYPE["number"])}:
            return _BY_JSON_TYPE["number"]
        return kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None
    kind: Any = schema.get("type")
    if kind == "array":
        return _field(schema.get("items", {}), definitions, depth)
    if kind == "object" and "properties" in schema:
        its = {
            name: _field(field, definitions, depth + 1)
            for name, field in schema["properties"].items()
        }
        return {"properties": {name: field for name, field in its.items() if field}}
    return _BY_JSON_TYPE.get(kind) if isinstance(kind, str) else None
