"""The flow's own tables: what their rows are, and who has changed them."""

from collections.abc import Mapping
from typing import Any

from clients.postgres.master_rows import NOT_THERE, MasterRow, MasterRows
from clients.postgres.source_book import Refusal, refusals, told_of_sources
from clients.postgres.store import judged_errors
from desk.letters.selection import Selection
from desk.letters.store import LetterBook
from shared.errors import RowRefusedError
from shared.flow_table import Flow
from shared.master_data.rows import BadRowError, Difference, difference, row_of
from shared.model import TABLES_OF_THE_SCHEMA, Fields, Table


class NoTableError(Exception):
    """That this flow declares, and whose rows are kept here."""


class NoRowError(Exception):
    """There is no row with this key."""


class ReadOnlyTableError(Exception):
    """Its rows come from a store of yours."""


class ChangedMeanwhileError(Exception):
    """The row has another version than the one that was to be changed."""


class MasterTables:
    """StoreAwayError where PostgreSQL does not answer. `by`: for the audit."""

    def __init__(self, book: LetterBook, flow: Flow) -> None:
        self._book = book
        self._rows = MasterRows(book.connection)
        self._flow = flow

    def tables(self) -> list[dict[str, Any]]:
        counts = self._rows.counts()
        return [
            {"table": table.name, "key": table.key, "rows": counts.get(table.name, 0)}
            for table in self._flow.tables
            if not table.in_sql
        ]

    def table(self, name: str) -> Table:
        if name in TABLES_OF_THE_SCHEMA:
            raise NoTableError(f"{name!r} is one of the sample's tables: see ./headrace devices")
        tables = {table.name: table for table in self._flow.tables}
        if name not in tables:
            known = ", ".join(tables) or "none"
            raise NoTableError(f"the flow declares no table {name!r}; its tables: {known}")
        if tables[name].in_sql:
            raise NoTableError(f"the rows of {name!r} stand in a table of your own: use SQL")
        return tables[name]

    def written_table(self, name: str) -> Table:
        """One whose rows are written here."""
        table = self.table(name)
        if table.source:
            raise ReadOnlyTableError(
                f"the rows of {name!r} are read from {table.source}: change them there"
            )
        return table

    def sources(self) -> list[dict[str, Any]]:
        """As of when tables are known whose rows are read from stores of the user's."""
        told = told_of_sources(self._book.connection)
        return [
            {
                "table": table.name,
                "source": str(table.source),
                "rows_as_of": read_at,
                "refused": refused,
            }
            for table in self._flow.sourced_tables
            for read_at, refused in [told.get(table.name, (None, 0))]
        ]

    def refusals(self, table: str, limit: int) -> list[Refusal]:
        return refusals(self._book.connection, self.table(table).name, limit)

    def page(self, table: str, limit: int, after: str = "") -> tuple[list[MasterRow], str | None]:
        """Rows in the order of their keys, and the key to go on after, if there are more."""
        rows = self._rows.page(self.table(table).name, limit + 1, after)
        return rows[:limit], rows[limit - 1].key if len(rows) > limit else None

    def get(self, table: str, key: str) -> MasterRow:
        found = self._rows.find(self.table(table).name, key)
        if found is None:
            raise NoRowError(f"{table} has no row {key!r}")
        return found

    def set(
        self, table: str, key: str, fields: Any, by: str, version: str | None = None
    ) -> MasterRow:
        """BadRowError where it is none. `version`: what the row must have now, or NOT_THERE."""
        row = row_of(self.written_table(table), fields, key)
        try:
            with judged_errors(), self._book.connection.transaction():
                found = self._rows.set(table, row.key, row.fields, version)
                if found is None:
                    raise self._changed(table, key, version)
                self._note(by, f"set {table} {key}")
        except RowRefusedError as error:
            raise BadRowError(f"PostgreSQL refuses it: {error.detail}") from error
        return found

    def delete(self, table: str, key: str, by: str, version: str | None = None) -> None:
        with judged_errors(), self._book.connection.transaction():
            if not self._rows.delete(self.written_table(table).name, key, version):
                self.get(table, key)
                raise self._changed(table, key, version)
            self._note(by, f"delete {table} {key}")

    def difference(self, table: str, rows: Mapping[str, Fields]) -> Difference:
        return difference(self._rows.all(self.table(table).name), rows)

    def take_in(
        self, table: str, rows: Mapping[str, Fields], by: str, *, replace: bool
    ) -> Difference:
        """All or none. `replace`: what is not among the rows is deleted."""
        self.written_table(table)
        with self._rows.alone():
            found = self.difference(table, rows)
            gone = found.absent if replace else []
            self._rows.change(table, found.set.items(), gone)
            if count := len(found.set) + len(gone):
                self._note(by, f"import {table}", count)
        return found

    def _changed(self, table: str, key: str, version: str | None) -> ChangedMeanwhileError:
        if version == NOT_THERE:
            return ChangedMeanwhileError(f"{table} has a row {key!r} already")
        return ChangedMeanwhileError(f"{table} {key!r} was changed meanwhile: read it anew")

    def _note(self, by: str, what: str, rows: int = 1) -> None:
        self._book.note(by, what, rows, Selection())
