"""Rows that the store may take later wait in a table of the same database, and what comes after
them of their entity, on the same topic, waits behind them.

It is the store itself that knows who waits: that stands in the same transaction as the rows that
are written. Whoever adds never waits for a lock of who serves (`line_server.py`): a row that joins
a line which has just been emptied is then the first of it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from clients.postgres.outbox import header_rows
from clients.postgres.store import Connection, save
from shared.errors import StoreAwayError
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.published.ledger import Verdict
from shared.retry_policy import RetryPolicy
from stream_jobs.persist.rows import DeadLetter, EventRow, GoneRow, Row, StateRow
from stream_jobs.persist.table_writer import TableWriter, Written
from stream_jobs.persist.view_rows import ViewRow
from stream_jobs.waiting.line_key import alone

CHANNEL = "headrace_waiting"
BEHIND = "behind"
LINE_FULL = "line_full"
# while single rows are tried: who waits for a lock holds up the others
LOCKED_FOR = b"SET LOCAL lock_timeout = '1s'"
# by then whoever serves has a look whether one behind another has become the first meanwhile
_LOOK_AFTER_S = 5.0

_ANY = b"SELECT EXISTS (SELECT FROM headrace.waiting_row)"
_HELD = b"""
    SELECT topic, line, count(*) FROM headrace.waiting_row
    JOIN (SELECT DISTINCT * FROM unnest(%b::text[], %b::text[]) AS given (topic, line)) AS given
    USING (topic, line) GROUP BY topic, line
"""
_THERE = b"""
    SELECT topic, partition, "offset" FROM headrace.waiting_row
    JOIN unnest(%b::text[], %b::int[], %b::bigint[]) AS given (topic, partition, "offset")
    USING (topic, partition, "offset")
"""
_ADD = """
    INSERT INTO headrace.waiting_row (topic, partition, "offset", line, key, value, headers,
                                      time_ms, reason, detail, tries, tried_at, due_at)
    SELECT topic, partition, "offset", line, key, value, headers::jsonb, time_ms, reason, detail,
           tries,
           CASE WHEN tries > 0 THEN now() END, now() + pause_s * interval '1 s'
    FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[],
                %b::text[], %b::bigint[], %b::text[], %b::text[], %b::int[], %b::float8[])
        AS given (topic, partition, "offset", line, key, value, headers, time_ms, reason, detail,
                  tries, pause_s)
    ON CONFLICT DO NOTHING
"""
# A later snapshot says all that earlier ones said, back to a null; a null all before it. The first
# one of the line stays, with what is known of its tries; so does what is being tried just now.
_COVERED = """
    DELETE FROM headrace.waiting_row WHERE (topic, partition, "offset") IN (
        SELECT topic, partition, "offset"
        FROM headrace.waiting_row AS older
        JOIN unnest(%b::text[], %b::text[], %b::int[], %b::bigint[], %b::boolean[])
            AS given (topic, line, partition, last, is_null) USING (topic, line, partition)
        WHERE older."offset" < last AND (is_null OR older.value IS NOT NULL)
          AND EXISTS (SELECT FROM headrace.waiting_row AS first
                      WHERE (first.line, first.topic, first.partition)
                          = (older.line, older.topic, older.partition)
                        AND first."offset" < older."offset")
        FOR UPDATE OF older SKIP LOCKED
    )
"""

Line = tuple[str, str]  # topic, and the entity


def is_kept(row: Row) -> bool:
    """Each for itself, as a version of a state: no later one says it anew."""
    return isinstance(row, StateRow | GoneRow) and row.has_history


class RowRules(NamedTuple):
    """How rows wait."""

    default: RetryPolicy
    of_events: Mapping[str, RetryPolicy]  # by type
    of_states: Mapping[str, RetryPolicy]  # by entity or aggregate
    rows_of_line_max: int
    rows_max: int

    @classmethod
    def of(cls, flow: Flow, age_max_s: float, rows_of_line_max: int, rows_max: int) -> "RowRules":
        """The rules of the flow's rows; by their age alone, where these say nothing else."""
        return cls(
            RetryPolicy(attempts_max=2**31, age_max_s=age_max_s),
            {row.name: row.retry for row in flow.event_types if row.retry},
            {row.name: row.retry for row in flow.with_state if row.retry},
            rows_of_line_max,
            rows_max,
        )

    def policy_of(self, row: Row) -> RetryPolicy:
        match row:
            case EventRow():
                return self.of_events.get(row.type, self.default)
            case DeadLetter() | ViewRow():
                return self.default
        return self.of_states.get(row.entity, self.default)

    def line_of(self, row: Row) -> Line | None:
        """None: it waits behind nobody."""
        if isinstance(row, DeadLetter):
            return None
        entity_id = row.entity_id if isinstance(row, EventRow) else row.id
        place = row.record.position
        # of a view's rows the higher version counts, in whatever order they come
        in_order = self.policy_of(row).in_order and not isinstance(row, ViewRow)
        return place.topic, entity_id if in_order else alone(entity_id, str(place))


class LineRows:
    """In the caller's transaction."""

    def __init__(self, connection: Connection, rules: RowRules) -> None:
        self._connection = connection
        self._rules = rules

    def queued(self, rows: Sequence[Row]) -> tuple[Sequence[Row], Written]:
        """Those that may be written now; the others have joined their lines."""
        if self._connection.execute(_ANY).fetchone() == (False,):
            return rows, Written()
        lines = [self._rules.line_of(row) for row in rows]
        held = self._held({line for line in lines if line is not None})
        if not held:
            return rows, Written()
        there = self._there(row for row, line in zip(rows, lines, strict=True) if line in held)
        free: list[Row] = []
        behind: list[Row] = []
        for row, line in zip(rows, lines, strict=True):
            if line not in held:
                free.append(row)
            elif row.record.position in there:
                continue  # the batch runs again
            elif not isinstance(row, EventRow) or held[line] < self._rules.rows_of_line_max:
                held[line] += 1
                behind.append(row)
            else:
                free.append(self._too_many(row))
        if behind:
            self._refuse_too_many()
        self._add([(row, BEHIND, "", 0, _LOOK_AFTER_S) for row in behind])
        return free, Written(waiting=len(behind))

    def begin(self, row: Row, sqlstate: str, detail: str) -> Written:
        """The first of its line."""
        self._refuse_too_many()
        pause_ms = self._rules.policy_of(row).pause_ms(str(row.record.position), 1)
        self._add([(row, sqlstate, detail, 1, pause_ms / 1000)])
        self._connection.execute(f"NOTIFY {CHANNEL}".encode())
        return Written(waiting=1)

    def _held(self, lines: Collection[Line]) -> dict[Line | None, int]:
        columns = [list(column) for column in zip(*lines, strict=True)] or [[], []]
        found = self._connection.execute(_HELD, columns)
        return {(topic, line): count for topic, line, count in found}

    def _there(self, rows: Iterable[Row]) -> set[Position]:
        columns = [
            list(column) for column in zip(*(row.record.position for row in rows), strict=True)
        ]
        return {Position(*at) for at in self._connection.execute(_THERE, columns)}

    def _refuse_too_many(self) -> None:
        """Where so many wait, it is no fault of single rows."""
        counted = self._connection.execute(
            b"SELECT count(*), min(reason) FILTER (WHERE tries > 0) FROM headrace.waiting_row"
        ).fetchone()
        assert counted is not None
        count, reason = counted
        if count >= self._rules.rows_max:
            raise StoreAwayError(
                f"{count} rows wait in headrace.waiting_row, the first reason is {reason}: "
                "./headrace waiting list"
            )

    def _too_many(self, row: EventRow) -> DeadLetter:
        detail = (
            f"{self._rules.rows_of_line_max} rows of {row.entity_id} wait already "
            "(HEADRACE_WAITING_PER_ENTITY_MAX)"
        )
        return DeadLetter(row.record, LINE_FULL, detail, ledger_place=row.ledger_place)

    def _add(self, told: Iterable[tuple[Row, str, str, int, float]]) -> None:
        """Each with its reason, the detail, how often it was tried, and its pause."""
        columns = []
        last: dict[tuple[str, str, int], tuple[int, bool]] = {}
        waiting = []
        for row, reason, detail, tries, pause_s in told:
            at, record = row.record.position, row.record
            line = self._rules.line_of(row)
            assert line is not None
            headers = json.dumps(header_rows(record.headers))
            said = reason, detail.replace("\0", "\\0"), tries, pause_s
            columns.append((*at, line[1], record.key, record.value, headers, record.time_ms, *said))
            if isinstance(row, EventRow):
                waiting.append((row.ledger_place, int(Verdict.WAITING)))
            elif not is_kept(row):
                last[(*line, at.partition)] = at.offset, record.value is None
        save(self._connection, _ADD, columns)
        save(self._connection, _COVERED, [(*line, *known) for line, known in last.items()])
        TableWriter(self._connection).journal(waiting)
