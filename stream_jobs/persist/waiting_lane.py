"""The lane of persist beside its query: a thread of the driver serves what waits in PostgreSQL.

It sleeps until the next row is due; whoever lets one wait wakes it by a notification of
PostgreSQL's, and so does an operator's order. Where nothing waits it asks nothing.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from clients.kafka.records import Offsets
from clients.postgres import store
from clients.postgres.store import Connection, judged_errors
from shared.errors import StoreAwayError
from shared.flow_table import Flow
from shared.settings import JobSettings
from stream_jobs.persist.advisory_lock import persist_lock
from stream_jobs.persist.line_server import LineServer
from stream_jobs.persist.rows import RowMaker
from stream_jobs.persist.waiting_rows import CHANNEL, RowRules
from stream_jobs.supervision.driver_task import DriverTask, OwnThread

LANE = "headrace.waiting_row"
_log = logging.getLogger(__name__)
_AGAIN_AFTER_S = 2.0
_COUNT_EVERY_S = 5.0
_WAKE_AT_LEAST_EVERY_S = 60.0
_NUMBERS = f"""
    SELECT count(*), count(DISTINCT (topic, line)),
           coalesce(extract(epoch FROM now() - min(since)), 0)::float8 FROM {LANE}
"""


def rules_of(settings: JobSettings, flow: Flow) -> RowRules:
    return RowRules.of(
        flow,
        settings.parked_after_s,
        settings.waiting_per_entity_max,
        settings.waiting_rows_max,
    )


class WaitingLane(DriverTask):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._settings = settings
        self._rules = rules_of(settings, flow)
        self._maker = RowMaker.of(flow)
        self._thread = OwnThread(self._run)
        self._parked = 0
        self._told: Mapping[str, Any] = {}

    def start(self) -> Offsets | None:
        self._thread.start()
        return None

    def stop(self) -> bool:
        persist_lock(self._settings.postgres_url.get_secret_value()).let_go()
        return self._thread.stop()

    def numbers(self) -> Mapping[str, Any]:
        return {"lanes": {LANE: self._told}} if self._told else {}

    def _run(self, is_over: threading.Event) -> None:
        slow_after_s = self._settings.slow_after_s
        url = self._settings.postgres_url.get_secret_value()
        while not is_over.is_set():
            try:
                with store.connect(url, "persist-lines", slow_after_s) as connection:
                    self._work(connection, is_over)
            except StoreAwayError as away:  # the job says so itself
                _log.info("what waits for PostgreSQL is not tried now: %s", away)
            except Exception:
                _log.exception("what waits for PostgreSQL could not be tried, trying again")
            is_over.wait(_AGAIN_AFTER_S)

    def _work(self, connection: Connection, is_over: threading.Event) -> None:
        """Until an error ends the connection."""
        slow_after_s = self._settings.slow_after_s
        server = LineServer(connection, self._maker, self._rules, slow_after_s, is_over.is_set)
        with judged_errors():
            connection.execute(f"LISTEN {CHANNEL}".encode())
        server.begin()
        count_at_s = 0.0
        while not is_over.is_set():
            next_s = server.serve()
            self._parked, server.parked = self._parked + server.parked, 0
            now_s = time.monotonic()
            if next_s is None or now_s >= count_at_s:
                count_at_s = now_s + _COUNT_EVERY_S
                self._count(connection)
            longest_s = _WAKE_AT_LEAST_EVERY_S if next_s is None else _COUNT_EVERY_S
            wait_s = longest_s if next_s is None else min(next_s, longest_s)
            self._wait(connection, is_over, now_s + wait_s)

    def _wait(self, connection: Connection, is_over: threading.Event, until_s: float) -> None:
        """A second at a time: whoever pauses the job need not wait longer. PostgreSQL is not
        asked."""
        is_woken = False
        while not (is_woken or is_over.is_set()) and (left_s := until_s - time.monotonic()) > 0:
            with judged_errors():
                is_woken = any(connection.notifies(timeout=min(left_s, 1.0), stop_after=1))

    def _count(self, connection: Connection) -> None:
        with judged_errors():
            counted = connection.execute(_NUMBERS.encode()).fetchone()
        assert counted is not None
        rows, entities, oldest_s = counted
        self._told = {
            "payloads": rows,
            "entities": entities,
            "deadlines": 0,
            "oldest_s": round(oldest_s, 1),
            "parked": self._parked,
        }
