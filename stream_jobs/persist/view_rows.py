"""Records of a view's topic -> rows of the view's table. Pure."""

from functools import cache
from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Record
from shared.model import Fields
from shared.tables.view_tables import VERSION, ViewTable, value_of

_BIGINT_END = 1 << 63


class ViewRow(NamedTuple):
    record: Record
    table: ViewTable
    id: str  # the record's key: as text, two may have one row
    version: int
    values: tuple[Any, ...]  # of the table's columns

    @property
    def key(self) -> tuple[Any, ...]:
        named = zip(self.table.columns, self.values, strict=True)
        return tuple(value for column, value in named if column.name in self.table.key)


def view_row(record: Record, table: ViewTable, key: str, value: bytes) -> ViewRow:
    """ValueError where it is none. `value` is JSON, and anyone may have written it."""
    fields = orjson.loads(value)
    version = _version(fields)
    its_key = {name: fields.get(name) for name in table.key_fields}
    if orjson.loads(key) != its_key:
        raise ValueError("the key has not what the row has in the columns of its key")
    values = tuple(value_of(column, fields) for column in table.columns)
    return ViewRow(record, table, key, version, values)


def _version(fields: Fields) -> int:
    try:
        version = fields["_meta"]["version"]
    except (KeyError, TypeError) as error:
        raise ValueError("it has no _meta.version") from error
    if type(version) is not int or not 0 <= version < _BIGINT_END:
        raise ValueError("its version is no time in epoch milliseconds")
    return version


@cache
def upsert_into(table: ViewTable) -> str:
    """Takes many rows at once, as columns: those of the table, then their versions."""
    names = [f'"{column.name}"' for column in table.columns]
    given = ", ".join(f"%b::{_given_as(column.sql_type)}[]" for column in table.columns)
    taken = ", ".join(
        f"{name}::{column.sql_type}" for name, column in zip(names, table.columns, strict=True)
    )
    key = ", ".join(f'"{name}"' for name in table.key)
    changes = ", ".join(f"{name} = excluded.{name}" for name in (*names, VERSION))
    columns = ", ".join((*names, VERSION))
    return f"""
        INSERT INTO headrace."{table.name}" AS stored ({columns})
        SELECT {taken}, {VERSION}
        FROM unnest({given}, %b::bigint[]) AS given ({columns})
        ORDER BY {key}
        ON CONFLICT ({key}) DO UPDATE SET {changes}
        WHERE excluded.{VERSION} > stored.{VERSION}
    """


def _given_as(sql_type: str) -> str:
    return sql_type if sql_type in ("bigint", "double precision", "boolean") else "text"
