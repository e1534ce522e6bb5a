"""Writes rows and the messages about them in one transaction: both are there, or neither.

Everything here may run again: what is stored already is passed over. A row that the store refuses
is found by halving: the others are written. What can never be a row is parked; what the store may
take later waits in the same database (`waiting_rows.py`).
"""

import time
from collections.abc import Iterable, Iterator, Sequence

from clients.postgres import sqlstates, store
from clients.postgres.store import Connection, judged_errors
from shared.errors import RowRefusedError, StoreAwayError, StoreSlowError
from stream_jobs.persist.rows import DeadLetter, EventRow, Row
from stream_jobs.persist.table_writer import TableWriter, Written
from stream_jobs.persist.waiting_rows import LOCKED_FOR, LineRows, RowRules

CHUNK_ROWS_MAX = 2_000
CHUNK_BYTES_MAX = 8 * 1024 * 1024
_ATTEMPTS = 3
_RETRY_AFTER_S = 0.2
# so many lines one after the other that are locked or take too long: it is the store then
_BUSY_LINES_MAX = 3


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Few enough rows and bytes for one statement."""
    chunk: list[Row] = []
    size_bytes = 0
    for row in rows:
        chunk.append(row)
        size_bytes += len(row.record.value or b"")
        if len(chunk) >= CHUNK_ROWS_MAX or size_bytes >= CHUNK_BYTES_MAX:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk


class EventStore:
    """One connection, made when it is needed and again when it is lost."""

    def __init__(
        self,
        url: str,
        slow_after_s: float = store.SLOW_AFTER_S,
        rules: RowRules | None = None,
    ) -> None:
        """`rules`: how rows wait that the store may take later; without them, they are parked."""
        self._url = url
        self._slow_after_s = slow_after_s
        self._rules = rules
        self._rows_max = CHUNK_ROWS_MAX
        self._connection: Connection | None = None
        self._looks_for_busy_row = False
        self._busy_lines = 0

    def write(self, rows: Sequence[Row]) -> Written:
        """StoreAwayError after a few attempts: nothing is lost by calling it again later. A store
        that is slow gets fewer rows at once, until it does them in time; where a single row is the
        cause, each half leads nearer to it."""
        written, done, slow_until, self._busy_lines = Written(), 0, 0, 0
        while done < len(rows):
            looks_for_slow_row = done < slow_until
            take = max((slow_until - done) // 2, 1) if looks_for_slow_row else self._rows_max
            part = rows[done : done + take]
            begun_s = time.monotonic()
            try:
                if looks_for_slow_row:
                    written += self._write_without_busy_row(part)
                else:
                    written += self._write_part(part)
            except StoreSlowError as slow:
                self._rows_max = max(len(part) // 2, 1)
                if len(part) == 1 or not self._one_row_may_wait(slow):
                    raise
                slow_until = done + len(part)
                continue
            done += len(part)
            took_s = time.monotonic() - begun_s
            # twice as many go in time, too
            if not looks_for_slow_row and took_s < self._slow_after_s / 4:
                self._rows_max = min(self._rows_max * 2, CHUNK_ROWS_MAX)
        return written

    def _write_part(self, rows: Sequence[Row]) -> Written:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._write_or_split(rows)
            except StoreAwayError as away:
                # also where the connection broke in COMMIT: whatever became of it, again is right
                self.close()
                if self._may_be_of_one_row(away, rows, attempt):
                    return self._write_without_busy_row(rows)
                if attempt == _ATTEMPTS or isinstance(away, StoreSlowError):
                    raise
            time.sleep(_RETRY_AFTER_S * attempt)
        raise AssertionError

    def _may_be_of_one_row(self, away: StoreAwayError, rows: Sequence[Row], attempt: int) -> bool:
        if not self._one_row_may_wait(away):
            return False
        if isinstance(away, StoreSlowError):
            return len(rows) == 1
        return attempt == _ATTEMPTS or not sqlstates.is_conflict(away.sqlstate)

    def _one_row_may_wait(self, away: StoreAwayError) -> bool:
        return self._rules is not None and sqlstates.may_be_of_one_row(away.sqlstate)

    def _write_without_busy_row(self, rows: Sequence[Row]) -> Written:
        self._looks_for_busy_row = True
        try:
            return self._write_or_split(rows)
        except StoreAwayError:
            self.close()
            raise
        finally:
            self._looks_for_busy_row = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write_or_split(self, rows: Sequence[Row]) -> Written:
        try:
            return self._write_together(rows)
        except RowRefusedError as refusal:
            if len(rows) == 1:
                return self._refused(rows[0], refusal)
        except StoreAwayError as away:
            if not (self._looks_for_busy_row and sqlstates.may_be_of_one_row(away.sqlstate)):
                raise
            if isinstance(away, StoreSlowError) and len(rows) > 1:
                raise  # of these `write` takes half
            if len(rows) == 1:
                self._busy_lines += 1
                if self._busy_lines > _BUSY_LINES_MAX:
                    raise
                return self._let_wait(rows[0], away.sqlstate, str(away))
        half = len(rows) // 2
        return self._write_or_split(rows[:half]) + self._write_or_split(rows[half:])

    def _refused(self, row: Row, refusal: RowRefusedError) -> Written:
        if refusal.may_pass and self._rules is not None:
            return self._let_wait(row, refusal.sqlstate, refusal.detail)
        place = row.ledger_place if isinstance(row, EventRow) else None
        letter = DeadLetter(row.record, "refused_by_store", str(refusal), ledger_place=place)
        return self._write_together([letter])

    def _let_wait(self, row: Row, sqlstate: str, detail: str) -> Written:
        """A store that takes this is well: the row alone is what it does not take."""
        assert self._connection is not None and self._rules is not None
        with judged_errors(), self._connection.transaction():
            return LineRows(self._connection, self._rules).begin(row, sqlstate, detail)

    def _write_together(self, rows: Sequence[Row]) -> Written:
        if self._connection is None:
            self._connection = store.connect(self._url, "persist", self._slow_after_s)
        behind = Written()
        with (
            # the server's own limit, for each of a few statements, comes first
            store.answered_within(self._connection, self._slow_after_s * 2),
            judged_errors(),
            self._connection.transaction(),
        ):
            if self._looks_for_busy_row:
                self._connection.execute(LOCKED_FOR)
            if self._rules is not None:
                rows, behind = LineRows(self._connection, self._rules).queued(rows)
            written = TableWriter(self._connection).write(rows) + behind
        if rows:
            self._busy_lines = 0
        return written
