"""The tables that views' rows stand in, made and changed as the contracts of the rows have them."""

from collections.abc import Iterable
from typing import NamedTuple

from clients.postgres.store import Connection
from shared.errors import WrongViewError
from shared.tables.view_tables import VERSION, ViewColumn, ViewTable

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_KEY = """
    SELECT array_agg(attname::text ORDER BY place),
        coalesce(bool_or((to_jsonb(pg_index) ->> 'indnullsnotdistinct')::boolean), false)
    FROM pg_index, unnest(indkey) WITH ORDINALITY AS of (number, place)
    JOIN pg_attribute ON attnum = number
    WHERE attrelid = indrelid AND indexrelid = to_regclass(%s)
"""


class _There(NamedTuple):
    types: dict[str, str]  # by column
    never_null: frozenset[str]
    key: tuple[str, ...]
    has_null_in_key: bool


def make_tables(connection: Connection, tables: Iterable[ViewTable]) -> None:
    """In the caller's transaction. WrongViewError where rows stand in a table that does not fit; an
    empty one is made anew."""
    for table in tables:
        there = _there(connection, table)
        if there is None:
            _make(connection, table)
        elif why_not := _why_not(table, there):
            _make_anew(connection, table, why_not)
        else:
            _change(connection, table, there)


def _there(connection: Connection, table: ViewTable) -> _There | None:
    found = connection.execute(_COLUMNS.encode(), [_name(table)]).fetchall()
    if not found:
        return None
    if VERSION not in (name for name, *_ in found):
        raise WrongViewError(
            f"VIEW_WRONG: headrace.{table.name} is no table of a view: give it another name, or "
            f"view {table.view} one"
        )
    key, nulls = connection.execute(
        _KEY.encode(), [f'headrace."{_key_name(table)}"']
    ).fetchone() or (None, None)
    return _There(
        {name: kind for name, kind, _ in found},
        frozenset(name for name, _, never in found if never),
        tuple(key or ()),
        bool(nulls),
    )


def _why_not(table: ViewTable, there: _There) -> str | None:
    for column in table.columns:
        kind = there.types.get(column.name, column.sql_type)
        if kind != column.sql_type:
            return f"{column.name} is {kind}, and {column.sql_type} by its contract now"
    if there.key != table.key:
        return f"the key is {', '.join(there.key) or 'unknown'}, and {', '.join(table.key)} now"
    if there.has_null_in_key != table.has_null_in_key:
        return "the key may be null, and may not now, or the other way round"
    return None


def _make(connection: Connection, table: ViewTable) -> None:
    columns = [f"{_declared(one)}{'' if one.may_be_null else ' NOT NULL'}" for one in table.columns]
    kind = "UNIQUE NULLS NOT DISTINCT" if table.has_null_in_key else "PRIMARY KEY"
    key = ", ".join(f'"{name}"' for name in table.key)
    connection.execute(
        f"""CREATE TABLE {_name(table)} (
                {", ".join(columns)}, {VERSION} bigint NOT NULL,
                CONSTRAINT "{_key_name(table)}" {kind} ({key})
            )""".encode()
    )
    if table.window_index:
        connection.execute(
            f'CREATE INDEX "{table.window_index}" ON {_name(table)} (window_start)'.encode()
        )


def _make_anew(connection: Connection, table: ViewTable, why_not: str) -> None:
    connection.execute(f"LOCK TABLE {_name(table)} IN ACCESS EXCLUSIVE MODE".encode())
    if connection.execute(f"SELECT FROM {_name(table)} LIMIT 1".encode()).rowcount:
        raise WrongViewError(
            f"VIEW_CHANGED: headrace.{table.name} has rows, and there {why_not}: give view "
            f"{table.view} version={table.version + 1}, and its rows are made in a table of their "
            "own, from the first event on"
        )
    connection.execute(f"DROP TABLE {_name(table)}".encode())
    _make(connection, table)


def _change(connection: Connection, table: ViewTable, there: _There) -> None:
    """Rows that are there have no value of a column that is new."""
    fits = {column.name for column in table.columns if not column.may_be_null} | {VERSION}
    changes = [
        f"ADD COLUMN {_declared(column)}"
        for column in table.columns
        if column.name not in there.types
    ]
    changes += [f'ALTER COLUMN "{one}" DROP NOT NULL' for one in sorted(there.never_null - fits)]
    if changes:
        connection.execute(f"ALTER TABLE {_name(table)} {', '.join(changes)}".encode())


def _declared(column: ViewColumn) -> str:
    return f'"{column.name}" {column.sql_type}'


def _name(table: ViewTable) -> str:
    return f'headrace."{table.name}"'


def _key_name(table: ViewTable) -> str:
    return f"{table.name}_key"
