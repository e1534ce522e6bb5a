"""The table of PostgreSQL that a view's rows stand in, as the contract of its rows has it. Pure."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson

from shared.contract import contract_of
from shared.model import Fields, View
from shared.tables.view_rows import WINDOW

VERSION = "_version"
_BOUNDS = "start", "end"
_WINDOW_OF = "window_start", "window_end"
# what PostgreSQL calls its own in every table
_SYSTEM = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}
# longer ones PostgreSQL cuts off
_NAME_CHARS_MAX = 63
# what begins with an underscore is ours
_COLUMN = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{_NAME_CHARS_MAX - 1}}}")
_INDEX_NAME = "{}_window"
_BIGINT_END = 1 << 63
# in one way alone, or two texts might be one key
_TIME = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# numbers that JSON has not: Spark writes them as texts
_NO_JSON = "NaN", "Infinity", "-Infinity"

SQL_TYPES = {
    "text": "text",
    "whole number": "bigint",
    "number": "double precision",
    "true or false": "boolean",
    "time": "timestamp with time zone",
    "date": "date",
    "list": "jsonb",
    "object": "jsonb",
}
_KEY_KINDS = "text", "whole number", "true or false", "time", "date", WINDOW
_BY_JSON_TYPE = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
_BY_FORMAT = {"date-time": "time", "date": "date"}


class RowField(NamedTuple):
    """A field of a row, as the contract has it."""

    kind: str
    may_be_null: bool


class ViewColumn(NamedTuple):
    name: str
    kind: str
    may_be_null: bool
    place: tuple[str, ...]  # of its value, in a row

    @property
    def sql_type(self) -> str:
        return SQL_TYPES[self.kind]


class ViewTable(NamedTuple):
    view: str
    version: int  # of the view's query
    name: str
    columns: tuple[ViewColumn, ...]
    key: tuple[str, ...]  # columns
    key_fields: tuple[str, ...]  # of a row

    @property
    def has_null_in_key(self) -> bool:
        return any(one.may_be_null for one in self.columns if one.name in self.key)

    @property
    def window_index(self) -> str | None:
        """For who asks by time alone; None where the key's own does."""
        starts = _WINDOW_OF[0]
        return _INDEX_NAME.format(self.name) if starts in self.key[1:] else None


def fields_of(row: View) -> Mapping[str, RowField]:
    """ValueError where they can be no columns."""
    schema = contract_of(row.row).json_schema()
    definitions = schema.get("$defs", {})
    schema = _resolved(schema, definitions)
    names = schema.get("properties", {})
    if not names:
        raise ValueError("the contract `row` has no fields: write a TypedDict")
    if twice := len(names) - len({name.lower() for name in names}):
        raise ValueError(f"{twice} of the contract's fields differ in upper and lower case alone")
    found = {name: _field(name, its, definitions) for name, its in names.items()}
    for name in names:
        if name in _WINDOW_OF or name in _SYSTEM:
            raise ValueError(f"{name!r} is what a table calls something else: name it otherwise")
        if not _COLUMN.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a column: a letter, then letters, digits and underscores, "
                f"at most {_NAME_CHARS_MAX}"
            )
        if name not in schema.get("required", ()):
            raise ValueError(
                f"{name!r} may be absent by the contract, and every row has every column: write "
                f"`{name}: … | None`"
            )
    for name in row.key:
        if name not in found:
            raise ValueError(f"its key names {name!r}, which the contract `row` has not")
        if found[name].kind not in _KEY_KINDS:
            raise ValueError(f"{name!r} is a {found[name].kind}, which is no part of a key")
    return found


@cache
def table_of(row: View) -> ViewTable:
    """ValueError where there can be none."""
    if len(_INDEX_NAME.format(row.job)) > _NAME_CHARS_MAX:
        raise ValueError(f"its table would be called {row.job}, which is too long for PostgreSQL")
    fields = fields_of(row)
    columns: list[ViewColumn] = []
    for name, field in fields.items():
        if field.kind == WINDOW:
            columns += [
                ViewColumn(column, "time", may_be_null=False, place=(WINDOW, bound))
                for column, bound in zip(_WINDOW_OF, _BOUNDS, strict=True)
            ]
        else:
            columns.append(ViewColumn(name, *field, (name,)))
    key_fields = (*row.key, *([WINDOW] if WINDOW in fields and WINDOW not in row.key else []))
    key = [name for one in key_fields for name in (_WINDOW_OF if one == WINDOW else (one,))]
    return ViewTable(row.name, row.version, row.job, tuple(columns), tuple(key), key_fields)


def value_of(column: ViewColumn, fields: Fields) -> Any:
    """As PostgreSQL gets it. ValueError where a row has none that fits."""
    value: Any = fields
    for name in column.place:
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"it has no {'.'.join(column.place)}")
        value = value[name]
    if value is None:
        if not column.may_be_null:
            raise ValueError(f"{column.name} is null, which the contract does not let it be")
        return None
    if not _fits(column.kind, value):
        raise ValueError(f"{column.name} is no {column.kind}, which it is by the contract")
    if column.kind == "number":
        return float(value)
    return orjson.dumps(value).decode() if column.sql_type == "jsonb" else value


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "text":
            return type(value) is str
        case "whole number":
            return type(value) is int and -_BIGINT_END <= value < _BIGINT_END
        case "number":
            return type(value) in (int, float) or value in _NO_JSON
        case "true or false":
            return type(value) is bool
        case "time" | "date":
            form = _TIME if kind == "time" else _DATE
            return type(value) is str and form.fullmatch(value) is not None
        case "list":
            return type(value) is list
    return type(value) is dict


def _field(name: str, schema: Fields, definitions: Fields) -> RowField:
    kinds, may_be_null = _kinds(schema, definitions)
    if kinds == {"whole number", "number"}:
        kinds = {"number"}
    if len(kinds) != 1:
        raise ValueError(f"{name!r} may be of several types by the contract, and a column has one")
    (kind,) = kinds
    is_window = kind == "object" and _is_window(_resolved(schema, definitions), definitions)
    if (name == WINDOW) != is_window:
        raise ValueError(
            f"a window of time is called {WINDOW}, and nothing else is: write `{WINDOW}: Window`"
        )
    return RowField(WINDOW if is_window else kind, may_be_null)


def _kinds(schema: Fields, definitions: Fields) -> tuple[set[str], bool]:
    """And whether it may be null."""
    schema = _resolved(schema, definitions)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        found = [_kinds(one, definitions) for one in several]
        return set().union(*(kinds for kinds, _ in found)), any(null for _, null in found)
    if schema.get("type") == "null":
        return set(), True
    kind = _BY_JSON_TYPE.get(schema.get("type", ""), "")
    if kind == "text":
        kind = _BY_FORMAT.get(schema.get("format", ""), kind)
    # of what has no type anything may be the value
    return ({kind} if kind else {"", "any"}), False


def _is_window(schema: Fields, definitions: Fields) -> bool:
    its = schema.get("properties", {})
    return tuple(its) == _BOUNDS and all(
        _kinds(one, definitions) == ({"time"}, False) for one in its.values()
    )


def _resolved(schema: Fields, definitions: Fields) -> Fields:
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return schema
