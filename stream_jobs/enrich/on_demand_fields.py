"""Master-data fields that an endpoint asks for fresh at every use: one query a table and batch."""

from collections.abc import Collection
from itertools import groupby
from operator import attrgetter
from typing import Any

from psycopg import sql

from clients.kafka.records import Payload
from clients.postgres import store
from shared.errors import StoreAwayError
from shared.events import envelope
from shared.flow_table import Flow
from shared.model import Fields, FreshField, MasterRows


class FreshFields:
    """Raises StoreAwayError where the store does not answer: then the batch has to wait."""

    def __init__(
        self, flow: Flow, postgres_url: str, slow_after_s: float = store.SLOW_AFTER_S
    ) -> None:
        self._url = postgres_url
        self._slow_after_s = slow_after_s
        self._endpoint_of = flow.endpoint_of
        self._is_used = any(row.fresh for row in flow.endpoints)
        self._connection: store.Connection | None = None

    def over(self, master: MasterRows, payloads: Collection[Payload]) -> MasterRows:
        """`master`, with the fields that these payloads' endpoints want fresh read anew."""
        wanted: set[FreshField] = set()
        ids: set[str] = set()
        for payload in payloads if self._is_used else ():
            kind = envelope.text(payload.headers, envelope.TYPE)
            endpoint = self._endpoint_of(payload.position.topic, kind)
            if endpoint and endpoint.fresh and payload.key:
                wanted.update(endpoint.fresh)
                ids.add(payload.key.decode(errors="replace").replace("\0", "\ufffd"))
        return _Overlay(master, self._read(wanted, sorted(ids))) if wanted else master

    def _read(self, wanted: set[FreshField], ids: list[str]) -> dict[tuple[str, str], Fields]:
        rows: dict[tuple[str, str], Fields] = {}
        by_table = attrgetter("table", "key")
        for (table, key), fields in groupby(sorted(wanted), by_table):
            names = [field.name for field in fields]
            query = sql.SQL("SELECT {key}, {names} FROM headrace.{table} WHERE {key} = ANY(%s)")
            query_text = query.format(
                key=sql.Identifier(key),
                names=sql.SQL(", ").join(map(sql.Identifier, names)),
                table=sql.Identifier(table),
            )
            for entity_id, *values in self._ask(query_text, ids):
                rows[table, entity_id] = dict(zip(names, values, strict=True))
        return rows

    def _ask(self, query: sql.Composed, ids: list[str]) -> list[tuple[Any, ...]]:
        try:
            if self._connection is None:
                self._connection = store.connect(self._url, "enrich", self._slow_after_s)
            with (
                store.answered_within(self._connection, self._slow_after_s * 2),
                store.judged_errors(),
            ):
                return self._connection.execute(query, (ids,)).fetchall()
        except StoreAwayError:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Overlay:
    def __init__(self, master: MasterRows, fresh: dict[tuple[str, str], Fields]) -> None:
        self._master = master
        self._fresh = fresh

    def find(self, table: str, key: str) -> Fields | None:
        row = self._master.find(table, key)
        fresh = self._fresh.get((table, key))
        return {**row, **fresh} if row is not None and fresh else row

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        return self._master.find_at(table, key, time_ms)
