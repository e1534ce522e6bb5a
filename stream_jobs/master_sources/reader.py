"""Reads the rows of a table from the store of the user's that its row of the flow names.

A thread of the relay's process for each such table: what is away holds up nothing but itself. The
rows go where those of all tables are, so the relay publishes what has changed.
"""

import logging
import threading
import time
from contextlib import closing, suppress
from hashlib import sha256

import orjson
from confluent_kafka import KafkaException

from clients.postgres import store
from clients.postgres.source_book import Kept, SourceBook
from clients.postgres.source_table import SourceAwayError, place_of
from shared.contract import contract_of
from shared.errors import RowRefusedError, StoreAwayError
from shared.flow import load_flow
from shared.master_data import SqlSource, TopicSource
from shared.model import Table
from shared.settings import JobSettings
from shared.timestamps import now_ms, to_rfc3339
from shared.topic_names import status_of_source
from stream_jobs.master_sources.sql_rows import SqlRows
from stream_jobs.master_sources.topic_rows import TopicRows
from stream_jobs.supervision.status import StatusReporter

_log = logging.getLogger(__name__)
_AGAIN_AFTER_S = 1.0
_SPEAKS_EVERY_S = 2.0
_TOPIC_EVERY_S = 1.0


def start(settings: JobSettings, stop: threading.Event) -> None:
    for table in load_flow(settings.flow).sourced_tables:
        threading.Thread(target=run, args=(settings, table, stop), daemon=True).start()


def run(settings: JobSettings, table: Table, stop: threading.Event) -> None:
    """Until `stop` is set, whatever happens to the source, to PostgreSQL and Kafka meanwhile."""
    reader = SourceReader(settings, table, stop)
    while not stop.is_set():
        try:
            reader.work()
        except SourceAwayError as away:
            reader.trouble(f"{table.source}: {away}")
        except KafkaException as error:
            reader.trouble(f"Kafka: {error.args[0].str()}")
        except StoreAwayError as away:
            reader.trouble(f"PostgreSQL of Headrace: {away}")
        except RowRefusedError as refused:
            reader.trouble(f"PostgreSQL of Headrace refuses a row: {refused.detail}")
        except Exception as error:
            _log.exception("rows of %s could not be read, trying again", table.name)
            reader.trouble(f"{type(error).__name__}: {error}")
        stop.wait(_AGAIN_AFTER_S)


class SourceReader:
    def __init__(self, settings: JobSettings, table: Table, stop: threading.Event) -> None:
        assert table.source is not None
        self._settings = settings
        self._table = table
        self._source = table.source
        self._stop = stop
        self._status = StatusReporter(settings, status_of_source(table.name))
        self._as_of_ms: int | None = None
        self._refused = 0
        self._trouble = ""
        self._said_at_s = float("-inf")
        its = self._source
        self._every_s = its.every_s if isinstance(its, SqlSource) else _TOPIC_EVERY_S

    def work(self) -> None:
        """Until the stop, or until an error ends a connection."""
        url = self._settings.postgres_url.get_secret_value()
        with store.connect(url, "source", self._settings.slow_after_s * 6) as connection:
            book = SourceBook(connection, self._table.name, self._digest())
            while not book.take_lead():
                if self._stop.wait(_AGAIN_AFTER_S):
                    return
            kept = book.kept()
            self._as_of_ms = kept.read_ms if kept else None
            self._refused = book.refused()
            with closing(self._rows(kept)) as rows:
                while not self._stop.is_set():
                    self._as_of_ms = rows.take_in(book)
                    self._refused = book.refused()
                    self._trouble = ""
                    self._rest()

    def _rows(self, kept: Kept | None) -> SqlRows | TopicRows:
        its = self._settings, self._table
        if isinstance(self._source, SqlSource):
            return SqlRows(*its, self._source, kept, self._speak)
        assert isinstance(self._source, TopicSource)
        return TopicRows(*its, self._source, kept, self._speak)

    def _digest(self) -> str:
        """A digest of what is read, and of how it is judged: where that changes, all is read
        anew."""
        shape = contract_of(self._table.row).json_schema() if self._table.row else None
        told = [repr(self._source), self._table.key, self._table.valid_from, shape]
        if isinstance(self._source, SqlSource):
            url = self._settings.master_databases.get(self._source.database)
            told.append(place_of(url.get_secret_value()) if url else None)
        return sha256(orjson.dumps(told)).hexdigest()

    def _rest(self) -> None:
        goes_on_s = time.monotonic() + self._every_s
        while not self._stop.is_set() and (left_s := goes_on_s - time.monotonic()) > 0:
            self._speak()
            self._stop.wait(min(left_s, _SPEAKS_EVERY_S))

    def trouble(self, why: str) -> None:
        if why != self._trouble:
            _log.warning("rows of %s are not read: %s", self._table.name, why)
            self._said_at_s = float("-inf")
        self._trouble = why
        self._speak()

    def _speak(self) -> None:
        if time.monotonic() - self._said_at_s < _SPEAKS_EVERY_S:
            return
        self._said_at_s = time.monotonic()
        if self._as_of_ms is None:
            known, late_s = "no row was read yet", None
        else:
            known = f"its rows are as of {to_rfc3339(self._as_of_ms)}"
            late_s = max(0.0, round((now_ms() - self._as_of_ms) / 1000 - self._every_s, 1))
        state, told = "running", [self._trouble, known]
        if self._trouble:
            state = "waiting"
        elif self._refused:
            state = "refusing"
            told[0] = f"{self._refused} rows: ./headrace master refused {self._table.name}"
        with suppress(KafkaException):  # to say it is never in the way of doing it
            self._status.report(
                state,
                "; ".join(filter(None, told)),
                lag_s=late_s,
                source=str(self._source),
                refused_rows=self._refused,
                rows_as_of_ms=self._as_of_ms,
            )
