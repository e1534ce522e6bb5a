"""A table or view in a PostgreSQL of the user's, from which rows of master data are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from clients.postgres.store import Connection, answered_within, one_line
from shared.master_data import SqlSource

_CONNECT_TIMEOUT_S = 3
_ANSWER_S = 60.0
_ROWS_AT_ONCE = 2_000
# whatever the role may do, and however its server shows times
_SESSION = (
    "-c default_transaction_read_only=on -c TimeZone=UTC -c DateStyle=ISO -c lock_timeout=10s"
    f" -c statement_timeout={_ANSWER_S * 1000:.0f} -c extra_float_digits=1"
)
_KEEPALIVE: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
_PREPARED = "prepared"


class SourceAwayError(Exception):
    """The source cannot be read now: why, in a sentence."""


class SourceRow(NamedTuple):
    key: str | None
    fields: str  # JSON
    is_deleted: bool


def place_of(url: str) -> str:
    """Without user and password, which an error of the driver may quote."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise SourceAwayError("its URL cannot be read: postgresql://user@host:5432/name") from None
    return f"{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


class SourceTable:
    """Every method raises SourceAwayError where the rows cannot be read."""

    def __init__(
        self,
        url: str,
        source: SqlSource,
        key: tuple[str, ...],
        columns: tuple[str, ...],
        needed: set[str],
    ) -> None:
        """`key`: its columns, whose texts make the key, with an @ between. `columns`: what is
        read, if it is there; none: all. `needed`: what must be there."""
        self._source = source
        with _judged():
            self._connection: Connection = psycopg.connect(
                url,
                autocommit=True,
                application_name="headrace-source",
                connect_timeout=_CONNECT_TIMEOUT_S,
                options=_SESSION,
                tcp_user_timeout=15_000,
                **_KEEPALIVE,
            )
        try:
            self._learn(key, columns, needed)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _learn(self, key: tuple[str, ...], columns: tuple[str, ...], needed: set[str]) -> None:
        its = self._source
        # as text, or its name would need a search path
        found = self._asked("SELECT to_regclass(%s)::text", its.relation)
        if found == [(None,)]:
            raise SourceAwayError(f"there is no table or view {its.relation}, or it is not to see")
        self._name = sql.SQL(cast(LiteralString, found[0][0]))
        kinds = {
            name: (category, kind)
            for name, category, kind in self._asked(
                """SELECT attname, typcategory, format_type(atttypid, NULL)
                   FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
                   WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped""",
                its.relation,
            )
        }
        wanted = {*key, *needed, *filter(None, (its.version, its.deleted))}
        if absent := wanted - kinds.keys():
            raise SourceAwayError(f"{its.relation} has no column {min(absent)!r}")
        if its.version and kinds[its.version][0] not in ("D", "N"):
            kind = kinds[its.version][1]
            raise SourceAwayError(f"its version {its.version!r} is {kind}: no time and no number")
        chosen = [name for name in columns or kinds if name in kinds]
        fields = sql.SQL(", ").join(map(_column, chosen))
        texts = [sql.SQL("{}::text").format(_column(name)) for name in key]
        key_text = sql.SQL(" || '@' || ").join(texts)
        self._select = sql.SQL(
            "SELECT {key}, (SELECT to_json(f) FROM (SELECT {fields}) AS f)::text, {deleted} "
            "FROM {relation} AS t"
        ).format(key=key_text, fields=fields, deleted=self._deleted(kinds), relation=self._name)
        self._is_time = its.version is not None and kinds[its.version][0] == "D"
        self._kind = sql.SQL(cast(LiteralString, kinds[its.version][1] if its.version else ""))

    def _deleted(self, kinds: dict[str, tuple[str, str]]) -> sql.Composable:
        name = self._source.deleted
        if name is None:
            return sql.SQL("false")
        is_truth = kinds[name][0] == "B"
        return sql.SQL("{} IS TRUE" if is_truth else "{} IS NOT NULL").format(_column(name))

    def open_transactions(self) -> frozenset[str]:
        """That may commit something later: by their virtual ids, which everyone may see. Of those
        that are prepared nothing but that there are any."""
        open_now = self._asked(
            """SELECT virtualxid FROM pg_locks JOIN pg_stat_activity AS its USING (pid)
               WHERE locktype = 'virtualxid' AND granted AND pid <> pg_backend_pid()
                 AND its.datname = current_database()"""
        )
        # asked afterwards: one that is prepared meanwhile stands in one of the two
        prepared = self._asked(
            "SELECT FROM pg_prepared_xacts WHERE database = current_database() LIMIT 1"
        )
        return frozenset([*(name for (name,) in open_now), *([_PREPARED] if prepared else [])])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read within it is of one moment."""
        with _judged(), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    def newest(self) -> str | None:
        """Version that there is, of all that are not of times to come."""
        if self._source.version is None:
            return None
        query = sql.SQL("SELECT max({version})::text FROM {relation} AS t {until}")
        version = _column(self._source.version)
        # one wrong time of the year 2099 would make all that comes before it old
        until = sql.SQL("WHERE {} <= clock_timestamp()" if self._is_time else "").format(version)
        found = self._asked(query.format(version=version, relation=self._name, until=until))
        return cast(str | None, found[0][0])

    def rows(self, since: str | None = None) -> Iterator[list[SourceRow]]:
        """All, or those of a later version, some at once."""
        query, values = self._select, []
        if since is not None and self._source.version is not None:
            later = sql.SQL(" WHERE {} > %s::{}").format(_column(self._source.version), self._kind)
            query, values = query + later, [since]
        with _judged(), self._connection.cursor("rows") as cursor:
            with answered_within(self._connection, _ANSWER_S * 2):
                cursor.execute(query, values)
            while True:
                with answered_within(self._connection, _ANSWER_S * 2):
                    found = cursor.fetchmany(_ROWS_AT_ONCE)
                if not found:
                    return
                yield [SourceRow(*row) for row in found]

    def _asked(self, query: str | sql.Composed, *values: object) -> list[tuple[Any, ...]]:
        asked = query.encode() if isinstance(query, str) else query
        with _judged(), answered_within(self._connection, _ANSWER_S * 2):
            return self._connection.execute(asked, values).fetchall()


def is_prepared(transactions: frozenset[str]) -> bool:
    return _PREPARED in transactions


def _column(name: str) -> sql.Composed:
    return sql.SQL("t.{}").format(sql.Identifier(name))


@contextmanager
def _judged() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise SourceAwayError(one_line(error)) from error
