"""Rows of the tables that a flow declares, as PostgreSQL keeps them. What changes is published by a
trigger, in the same transaction (migration 0012)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import orjson

from clients.postgres.store import Connection, judged_errors
from shared.model import Fields

# a version never comes twice, also not of a row that was deleted and set again
_VERSION = "revision || '-' || (extract(epoch FROM updated_at) * 1000000)::bigint"
_COLUMNS = f"key, fields::text, revision, updated_at, {_VERSION}"
_SET = "INSERT INTO headrace.master_row (table_name, key, fields) VALUES (%s, %s, %s::jsonb)"
_OVER = "ON CONFLICT (table_name, key) DO UPDATE SET fields = excluded.fields"
_OF_VERSION = f"{_VERSION} = %s"
_ROWS_AT_ONCE = 10_000

# in the place of a version: there must be no row yet
NOT_THERE = ""


class MasterRow(NamedTuple):
    key: str
    fields: Fields
    revision: int
    updated_at: datetime
    version: str  # which other content never has


class MasterRows:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def counts(self) -> dict[str, int]:
        with judged_errors():
            return dict(
                self._connection.execute(
                    "SELECT table_name, count(*) FROM headrace.master_row GROUP BY table_name"
                ).fetchall()
            )

    def find(self, table: str, key: str) -> MasterRow | None:
        return self._row(
            f"SELECT {_COLUMNS} FROM headrace.master_row WHERE table_name = %s AND key = %s",
            table,
            key,
        )

    def page(self, table: str, limit: int, after: str = "") -> list[MasterRow]:
        """Rows in the order of their keys."""
        query = f"""SELECT {_COLUMNS} FROM headrace.master_row
                    WHERE table_name = %s AND key > %s ORDER BY key LIMIT %s"""
        with judged_errors():
            found = self._connection.execute(query.encode(), (table, after, limit))
            return [_read(*row) for row in found]

    def all(self, table: str) -> dict[str, Fields]:
        query = "SELECT key, fields::text FROM headrace.master_row WHERE table_name = %s"
        with judged_errors(), self._connection.cursor() as cursor:
            return {key: orjson.loads(text) for key, text in cursor.execute(query, (table,))}

    def set(
        self, table: str, key: str, fields: Fields, version: str | None = None
    ) -> MasterRow | None:
        """The row as it is now. None where it was to have this version, and has another one."""
        content = orjson.dumps(fields).decode()
        if version is None:
            return self._row(f"{_SET} {_OVER} RETURNING {_COLUMNS}", table, key, content)
        if version == NOT_THERE:
            return self._row(
                f"{_SET} ON CONFLICT DO NOTHING RETURNING {_COLUMNS}", table, key, content
            )
        return self._row(
            f"""UPDATE headrace.master_row SET fields = %s::jsonb
                WHERE table_name = %s AND key = %s AND {_OF_VERSION} RETURNING {_COLUMNS}""",
            content,
            table,
            key,
            version,
        )

    def delete(self, table: str, key: str, version: str | None = None) -> bool:
        """Whether it was there, in this version where one is given."""
        gone = self._row(
            f"""DELETE FROM headrace.master_row
                WHERE table_name = %s AND key = %s AND (%s::text IS NULL OR {_OF_VERSION})
                RETURNING {_COLUMNS}""",
            table,
            key,
            version,
            version,
        )
        return gone is not None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A transaction in which nobody else writes rows: what was compared is what is changed."""
        with judged_errors(), self._connection.transaction():
            self._connection.execute("LOCK TABLE headrace.master_row IN SHARE ROW EXCLUSIVE MODE")
            yield

    def change(self, table: str, rows: Iterable[tuple[str, Fields]], gone: Sequence[str]) -> None:
        """Many at once, in the caller's transaction. A row that is the same is not written."""
        left = iter(rows)
        while some := list(islice(left, _ROWS_AT_ONCE)):
            self._connection.execute(
                f"""INSERT INTO headrace.master_row (table_name, key, fields)
                    SELECT %s::text, key, given.fields::jsonb
                    FROM unnest(%s::text[], %s::text[]) AS given (key, fields)
                    WHERE NOT EXISTS (
                        SELECT FROM headrace.master_row AS there WHERE table_name = %s
                        AND there.key = given.key AND there.fields = given.fields::jsonb
                    ) {_OVER}""".encode(),
                (
                    table,
                    [key for key, _ in some],
                    [orjson.dumps(fields).decode() for _, fields in some],
                    table,
                ),
            )
        for begin in range(0, len(gone), _ROWS_AT_ONCE):
            self._connection.execute(
                "DELETE FROM headrace.master_row WHERE table_name = %s AND key = ANY(%s)",
                (table, [*gone[begin : begin + _ROWS_AT_ONCE]]),
            )

    def _row(self, query: str, *values: object) -> MasterRow | None:
        with judged_errors():
            found = self._connection.execute(query.encode(), values).fetchone()
        return None if found is None else _read(*found)


def _read(key: str, text: str, revision: int, updated_at: datetime, version: str) -> MasterRow:
    return MasterRow(key, orjson.loads(text), revision, updated_at, version)
