"""Which events are rows by now: one question to PostgreSQL for all who wait for that, in a thread.

Completions would say it without a question, but a repeat has none: its event is a row already.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg

from clients.postgres import store
from clients.postgres.store import Connection, answered_within, judged_errors
from gateway.effects.effect import StoredRow
from shared.errors import JobError

log = logging.getLogger(__name__)

_SLOW_AFTER_S = 2.0
_ROWS = "SELECT event_id, origin, payload_sha256 FROM headrace.event WHERE event_id = ANY(%s)"


class StoredRows:
    def __init__(self, url: str) -> None:
        self._url = url
        self._thread = ThreadPoolExecutor(1, "stored")
        self._connection: Connection | None = None

    async def of(self, ids: Sequence[str]) -> Mapping[str, StoredRow]:
        """None of them where it does not answer: it is asked again."""
        try:
            return await asyncio.wrap_future(self._thread.submit(self._ask, ids))
        except (JobError, psycopg.Error) as error:
            log.warning("PostgreSQL does not say what is stored: %s", error)
            return {}

    async def close(self) -> None:
        """A connection is kept as long as somebody waits."""
        if self._connection is not None:
            await asyncio.wrap_future(self._thread.submit(self._close))

    def _ask(self, ids: Sequence[str]) -> Mapping[str, StoredRow]:
        try:
            if self._connection is None:
                self._connection = store.connect(self._url, "wait", _SLOW_AFTER_S)
            with answered_within(self._connection, 2 * _SLOW_AFTER_S), judged_errors():
                rows = self._connection.execute(_ROWS, (list(ids),)).fetchall()
        except (JobError, psycopg.Error):
            self._close()
            raise
        return {row[0]: StoredRow(*row) for row in rows}

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
