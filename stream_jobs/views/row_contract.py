"""Whether the columns of a view's rows, as Spark knows them, are those of the view's contract."""

from collections.abc import Iterable
from typing import NamedTuple

from shared.model import View
from shared.tables.view_rows import WINDOW
from shared.tables.view_tables import RowField, fields_of

_WHOLE, _NUMBER = ("bigint", "int", "smallint", "tinyint"), ("double", "float")
_KINDS = {
    "string": "text",
    **dict.fromkeys(_WHOLE, "whole number"),
    **dict.fromkeys(_NUMBER, "number"),
    "boolean": "true or false",
    "timestamp": "time",
    "date": "date",
    "array": "list",
    "struct": "object",
    "map": "object",
}
_WRITTEN = {
    "text": "str",
    "whole number": "int",
    "number": "float",
    "true or false": "bool",
    "time": "Time",
    "date": "Date",
    "list": "list",
    "object": "dict[str, Any]",
    WINDOW: "Window",
}
_CAST = {
    "text": "STRING",
    "whole number": "BIGINT",
    "number": "DOUBLE",
    "true or false": "BOOLEAN",
    "time": "TIMESTAMP",
    "date": "DATE",
}


class SparkColumn(NamedTuple):
    name: str
    type: str  # as Spark writes it
    may_be_null: bool


def why_not(row: View, columns: Iterable[SparkColumn]) -> str | None:
    """What to write, where they are not."""
    contract, its_name = fields_of(row), getattr(row.row, "__name__", "its contract")
    known = {column.name: column for column in columns}
    for column in known.values():
        told = contract.get(column.name)
        if told is None:
            return f"{its_name} has no {column.name}: write `{_as_field(column)}` there"
        if said := _why_not(column, told, its_name):
            return said
    for name in contract:
        if name not in known:
            there = ", ".join(known)
            return f"{its_name} has {name}, and the SELECT has not; it has: {there}"
    return None


def _why_not(column: SparkColumn, told: RowField, its_name: str) -> str | None:
    kind, name = _kind(column), column.name
    if kind != told.kind:
        cast = _CAST.get(told.kind)
        in_sql = f"CAST(… AS {cast}) AS {name} in the SELECT" if cast else ""
        in_contract = f"`{_as_field(column)}` in {its_name}" if kind else ""
        either = ", or ".join(filter(None, (in_contract, in_sql)))
        return f"{name} is {column.type}, and a {told.kind} in {its_name}: write {either}"
    if column.may_be_null and not told.may_be_null:
        return (
            f"{name} may be null, and not in {its_name}: write `{_as_field(column)}` there, or "
            f"coalesce(…) AS {name} in the SELECT, or leave such events out (WHERE … IS NOT NULL)"
        )
    return None


def _kind(column: SparkColumn) -> str:
    """Empty: no contract has it."""
    if column.name == WINDOW:
        return WINDOW
    return _KINDS.get(column.type.partition("<")[0], "")


def _as_field(column: SparkColumn) -> str:
    kind = _kind(column)
    null = " | None" if column.may_be_null else ""
    return f"{column.name}: {_WRITTEN.get(kind, '…')}{null}"
