"""One persist at a time, as PostgreSQL sees it; the other jobs have to start without PostgreSQL."""

import time
from collections.abc import Callable

from clients.postgres import store
from clients.postgres.store import judged_errors
from shared.errors import AnotherCopyError, StoreAwayError

_ONE_PERSIST_AT_A_TIME = 4_729_018_803
# the server notices within 11 s that the machine of the last one is gone
_LET_GO_WITHIN_S = 15.0


class PersistLock:
    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._connection: store.Connection | None = None
        self._refused_since_s: float | None = None

    def hold(self) -> None:
        """StoreAwayError as long as it cannot be had yet, AnotherCopyError where it never will."""
        try:
            with judged_errors():
                if self._connection is None:
                    self._take()
                else:
                    self._connection.execute("SELECT 1")
        except StoreAwayError:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self) -> None:
        connection = store.connect(self._url, "persist-lock")
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
