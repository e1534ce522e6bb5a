"""What is known of a table whose rows are read from a store of the user's: the rows themselves, how
far that store was read, and which rows were refused. All in one transaction, so that a process that
dies goes on with what it has kept."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from clients.postgres.master_rows import MasterRows
from clients.postgres.store import Connection, judged_errors, save
from shared.errors import RowRefusedError
from shared.model import Fields
from shared.timestamps import to_rfc3339

_ONE_READER_OF_A_TABLE = 47_290
_KEY_CHARS_MAX = 256
_REFUSE = """
    INSERT INTO headrace.master_refusal (table_name, key, reason)
    SELECT * FROM unnest(%b::text[], %b::text[], %b::text[])
    ON CONFLICT (table_name, key) DO UPDATE SET reason = excluded.reason, refused_at = now()
    WHERE master_refusal.reason <> excluded.reason
"""


class Kept(NamedTuple):
    position: Any
    read_ms: int
    compared_ms: int


class Refusal(NamedTuple):
    key: str
    reason: str
    refused_at: datetime


class Changes:
    """What has become of some rows, by their keys: the last word on each counts."""

    def __init__(self) -> None:
        self.rows: dict[str, Fields | None] = {}  # None: it is gone
        self.refused: dict[str, str] = {}  # and why. What the row was before stays

    def set(self, key: str, fields: Fields | None) -> None:
        self.rows[key] = fields
        self.refused.pop(key, None)

    def refuse(self, key: str, why: str) -> None:
        self.refused[key] = why

    def __bool__(self) -> bool:
        return bool(self.rows or self.refused)


class SourceBook:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection, table: str, source: str) -> None:
        """`source`: a digest of what is read. What was kept of another one is not known here."""
        self._connection = connection
        self._rows = MasterRows(connection)
        self._table = table
        self._source = source

    def take_lead(self) -> bool:
        """True for one reader of the table at a time, until its connection ends."""
        return self._asked(
            "SELECT pg_try_advisory_lock(%s, hashtext(%s))", _ONE_READER_OF_A_TABLE, self._table
        ) == [(True,)]

    def kept(self) -> Kept | None:
        found = self._asked(
            """SELECT position::text, (extract(epoch FROM read_at) * 1000)::bigint,
                      (extract(epoch FROM compared_at) * 1000)::bigint
               FROM headrace.master_source WHERE table_name = %s AND source = %s""",
            self._table,
            self._source,
        )
        return Kept(orjson.loads(found[0][0]), *found[0][1:]) if found else None

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """All that is kept within it, or nothing."""
        with judged_errors(), self._connection.transaction():
            yield

    def keep(self, changes: Changes) -> None:
        """A row that PostgreSQL does not take is refused by itself."""
        try:
            self._keep(changes)
        except RowRefusedError:
            for key, row in changes.rows.items():
                one = Changes()
                one.set(key, row)
                try:
                    self._keep(one)
                except RowRefusedError as error:
                    changes.refuse(key, f"PostgreSQL does not take it: {error.detail}")
            self._refuse(changes.refused)

    def _keep(self, changes: Changes) -> None:
        rows = [(key, row) for key, row in changes.rows.items() if row is not None]
        # no row has NUL in its key, and PostgreSQL cannot even be asked for one
        gone = [key for key, row in changes.rows.items() if row is None and "\0" not in key]
        with self.at_once():
            self._rows.change(self._table, rows, gone)
            self._asked(
                """DELETE FROM headrace.master_refusal WHERE table_name = %s AND key = ANY(%s)
                   RETURNING key""",
                self._table,
                [_shown(key) for key in changes.rows],
            )
            self._refuse(changes.refused)

    def _refuse(self, refused: dict[str, str]) -> None:
        told = {_shown(key): why.replace("\0", "\\0") for key, why in refused.items()}
        with judged_errors():
            save(self._connection, _REFUSE, [(self._table, *pair) for pair in told.items()])

    def keep_position(self, position: Any, read_ms: int, compared_ms: int) -> None:
        self._asked(
            """INSERT INTO headrace.master_source AS kept
               VALUES (%s, %s, %s::jsonb, %s::timestamptz, %s::timestamptz)
               ON CONFLICT (table_name) DO UPDATE SET
                   source = excluded.source, position = excluded.position,
                   read_at = excluded.read_at, compared_at = excluded.compared_at
               RETURNING table_name""",
            self._table,
            self._source,
            orjson.dumps(position).decode(),
            to_rfc3339(read_ms),
            to_rfc3339(compared_ms),
        )

    def forget_others(self, there: Collection[str]) -> None:
        """Rows, and refusals, of keys that the source does not have any more."""
        known = self._asked(
            """SELECT key FROM headrace.master_row WHERE table_name = %s
               UNION SELECT key FROM headrace.master_refusal WHERE table_name = %s""",
            self._table,
            self._table,
        )
        shown = {_shown(key) for key in there}
        gone = Changes()
        for (key,) in known:
            if key not in there and key not in shown:
                gone.set(key, None)
        self.keep(gone)

    def refused(self) -> int:
        query = "SELECT count(*) FROM headrace.master_refusal WHERE table_name = %s"
        return int(self._asked(query, self._table)[0][0])

    def _asked(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with judged_errors():
            return self._connection.execute(query.encode(), values).fetchall()


def _shown(key: str) -> str:
    """A key that is refused may be anything."""
    return key[:_KEY_CHARS_MAX].replace("\0", "?")


def refusals(connection: Connection, table: str, limit: int) -> list[Refusal]:
    """Rows that were refused, in the order of their keys."""
    query = b"""SELECT key, reason, refused_at FROM headrace.master_refusal
                WHERE table_name = %s ORDER BY key LIMIT %s"""
    with judged_errors():
        return [Refusal(*row) for row in connection.execute(query, (table, limit))]


def told_of_sources(connection: Connection) -> dict[str, tuple[datetime, int]]:
    """As of when the rows of each table are known, and how many were refused, for each table that
    was read."""
    query = b"""SELECT table_name, read_at,
                       (SELECT count(*) FROM headrace.master_refusal AS one
                        WHERE one.table_name = read.table_name)
                FROM headrace.master_source AS read"""
    with judged_errors():
        return {table: (read_at, count) for table, read_at, count in connection.execute(query)}
