"""Rows of a table or view of the user's PostgreSQL -> the table of master data."""

import time
from collections.abc import Callable
from hashlib import blake2b

import orjson

from clients.postgres.source_book import Changes, Kept, SourceBook
from clients.postgres.source_table import (
    SourceAwayError,
    SourceRow,
    SourceTable,
    is_prepared,
)
from shared.master_data import SqlSource
from shared.master_data.rows import BadRowError, row_from_source, shape_of
from shared.model import Fields, Table
from shared.settings import JobSettings
from shared.timestamps import now_ms
from stream_jobs.master_sources.settled_version import SettledVersion

_NO_KEY = ""  # under which rows are refused that have none


class SqlRows:
    """Its position is the version up to which all was read for good."""

    def __init__(
        self,
        settings: JobSettings,
        table: Table,
        source: SqlSource,
        kept: Kept | None,
        is_alive: Callable[[], None],
    ) -> None:
        self._table = table
        self._source = source
        self._is_alive = is_alive
        self._kept = kept
        self._settled = SettledVersion(source.late_s, kept.position if kept else None)
        # what was taken in and is read again until it counts for good: key -> digest
        self._taken: dict[str | None, bytes] = {}
        url = settings.master_databases.get(source.database)
        if url is None:
            raise SourceAwayError(
                f"HEADRACE_MASTER_DATABASES has no {source.database!r}: add its URL there, "
                f'{{"{source.database}": "postgresql://…"}}'
            )
        shape = shape_of(table)
        self._from = SourceTable(
            url.get_secret_value(),
            source,
            (table.key, table.valid_from) if table.valid_from else (table.key,),
            shape.fields,
            {*shape.needed},
        )

    def close(self) -> None:
        self._from.close()

    def take_in(self, book: SourceBook) -> int:
        """As of when all is known."""
        open_now, begun_ms = self._from.open_transactions(), now_ms()
        self._settled.begin(open_now, time.monotonic(), may_hide=is_prepared(open_now))
        compares = self._compares(begun_ms)
        if compares:
            self._taken.clear()
        with self._from.snapshot():
            newest = self._from.newest()
            if compares or self._source.version is None:
                self._compare(book)
            else:
                for rows in self._from.rows(self._settled.since):
                    self._keep(book, rows)
        compared_ms = begun_ms if compares or self._kept is None else self._kept.compared_ms
        self._kept = Kept(self._settled.after, begun_ms, compared_ms)
        book.keep_position(*self._kept)
        if self._settled.end(newest) and self._source.version is not None:
            self._taken.clear()
        return begun_ms

    def _compares(self, at_ms: int) -> bool:
        if self._kept is None:
            return True
        return at_ms - self._kept.compared_ms >= self._source.compare_every_s * 1000

    def _compare(self, book: SourceBook) -> None:
        there: set[str] = set()
        for rows in self._from.rows():
            once, twice = [], Changes()
            for row in rows:
                if row.key in there:
                    twice.refuse(row.key, "more than one row of the source has this key")
                    continue
                once.append(row)
                if not row.is_deleted:
                    there.add(_NO_KEY if row.key is None else row.key)
            self._keep(book, once)
            if twice:
                book.keep(twice)
        book.forget_others(there)
        for key in self._taken.keys() - there:
            del self._taken[key]  # or it would be known where it comes back as it was

    def _keep(self, book: SourceBook, rows: list[SourceRow]) -> None:
        self._is_alive()
        taken = {row.key: _digest(row) for row in rows}
        news = Changes()
        for row in rows:
            if self._taken.get(row.key) != taken[row.key]:
                self._judge(row, news)
        if news:
            book.keep(news)
        self._taken |= taken

    def _judge(self, row: SourceRow, news: Changes) -> None:
        if row.is_deleted:
            if row.key is not None:
                news.set(row.key, None)
        elif row.key is None:
            names = filter(None, (self._table.key, self._table.valid_from))
            news.refuse(_NO_KEY, f"a row of the source has no {' or no '.join(names)}")
        else:
            try:
                news.set(row.key, self._fields(row, row.key))
            except BadRowError as error:
                news.refuse(row.key, str(error))

    def _fields(self, row: SourceRow, key: str) -> Fields:
        try:
            fields = orjson.loads(row.fields)
        except orjson.JSONDecodeError as error:  # a column of json may hold half a character
            raise BadRowError(f"no JSON that others can read: {error}") from None
        if self._table.valid_from is None:
            fields[self._table.key] = key  # whatever type its column has
        return row_from_source(self._table, fields, key).fields


def _digest(row: SourceRow) -> bytes:
    return blake2b(f"{row.is_deleted}{row.fields}".encode(), digest_size=16).digest()
