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
from stream_jobs.persist.line_server import LineServer
from stream_jobs.persist.rows import RowMaker
from stream_jobs.persist.waiting_rows import CHANNEL, RowRules
from stream_jobs.supervision.driver_task import DriverTask

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
        settings.waits_max_s,
        settings.waiting_per_entity_max,
        settings.waiting_rows_max,
    )


class WaitingLane(DriverTask):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._settings = settings
        self._rules = rules_of(settings, flow)
        self._maker = RowMaker.of(flow)
        self._thread: threading.Thread | None = None
        self._parked = 0
        self._told: Mapping[str, Any] = {}

    def start(self) -> Offsets | None:
        """Once in the life of a process: a query that begins again finds it at work."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return None

    def numbers(self) -> Mapping[str, Any]:
        return {"lanes": {LANE: self._told}} if self._told else {}

    def _run(self) -> None:
        slow_after_s = self._settings.slow_after_s
        url = self._settings.postgres_url.get_secret_value()
        while True:
            try:
                with store.connect(url, "persist-lines", slow_after_s) as connection:
                    self._work(connection)
            except StoreAwayError as away:  # the job says so itself
                _log.info("what waits for PostgreSQL is not tried now: %s", away)
            except Exception:
                _log.exception("what waits for PostgreSQL could not be tried, trying again")
            time.sleep(_AGAIN_AFTER_S)

    def _work(self, connection: Connection) -> None:
        """Until an error ends the connection."""
        server = LineServer(connection, self._maker, self._rules, self._settings.slow_after_s)
        with judged_errors():
            connection.execute(f"LISTEN {CHANNEL}".encode())
        server.begin()
        count_at_s = 0.0
        while True:
            next_s = server.serve()
            self._parked, server.parked = self._parked + server.parked, 0
            now_s = time.monotonic()
            if next_s is None or now_s >= count_at_s:
                count_at_s = now_s + _COUNT_EVERY_S
                self._count(connection)
            longest_s = _WAKE_AT_LEAST_EVERY_S if next_s is None else _COUNT_EVERY_S
            with judged_errors():
                wait_s = longest_s if next_s is None else min(next_s, longest_s)
                for _ in connection.notifies(timeout=wait_s, stop_after=1):
                    pass

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
