"""One persist at a time, as PostgreSQL sees it; the other jobs have to start without PostgreSQL."""

import threading
import time
from collections.abc import Callable
from functools import cache

from clients.postgres import store
from clients.postgres.store import answered_within, judged_errors
from shared.errors import AnotherCopyError, StoreAwayError

_ONE_PERSIST_AT_A_TIME = 4_729_018_803
# the server notices within 11 s that the machine of the last one is gone
_LET_GO_WITHIN_S = 15.0
_ANSWERS_WITHIN_S = 10.0


class PersistLock:
    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._connection: store.Connection | None = None
        self._refused_since_s: float | None = None
        self._in_use = threading.Lock()

    def hold(self) -> None:
        """StoreAwayError as long as it cannot be had yet, AnotherCopyError where it never will."""
        with self._in_use:
            try:
                if self._connection is None:
                    self._take()
                else:
                    with answered_within(self._connection, _ANSWERS_WITHIN_S), judged_errors():
                        self._connection.execute("SELECT 1")
            except StoreAwayError:
                self.close()
                raise

    def let_go(self) -> None:
        """Gives up the lock of a job that pauses, whose query has ended."""
        if self._in_use.acquire(blocking=False):
            try:
                self.close()
                self._refused_since_s = None  # whoever goes on has as much patience as at first
            finally:
                self._in_use.release()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self) -> None:
        connection = store.connect(self._url, "persist-lock")
        with answered_within(connection, _ANSWERS_WITHIN_S), judged_errors():
            row = connection.execute(
                "SELECT pg_try_advisory_lock(%s)", (_ONE_PERSIST_AT_A_TIME,)
            ).fetchone()
        if row == (True,):
            self._connection, self._refused_since_s = connection, None
            return
        connection.close()
        now_s = self._clock()
        if self._refused_since_s is None:
            self._refused_since_s = now_s
        if now_s - self._refused_since_s > _LET_GO_WITHIN_S:
            raise AnotherCopyError(
                "ANOTHER_COPY: another persist holds the advisory lock of this database "
                "(application_name headrace-persist-lock in pg_stat_activity): stop one of the two"
            )
        raise StoreAwayError("another persist still holds the lock of this database")


@cache
def persist_lock(url: str) -> PersistLock:
    """The lock of this process: a query that begins again must not meet the lock of its
    predecessor."""
    return PersistLock(url)
