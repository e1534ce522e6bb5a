"""Tries what waits for the store, each entity in its order, when its time has come.

What becomes a row leaves its line in the same transaction, and each transaction reads the line
anew. So whoever dies on the way loses nothing, and two may serve at once.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from clients.kafka.records import Record
from clients.postgres import sqlstates, store
from clients.postgres.outbox import header_pairs
from clients.postgres.store import Connection, judged_errors, save
from shared.errors import RowRefusedError, StoreAwayError
from shared.events.envelope import Position
from stream_jobs.persist.rows import DeadLetter, EventRow, GoneRow, Row, RowMaker, StateRow
from stream_jobs.persist.table_writer import TableWriter
from stream_jobs.persist.waiting_rows import LOCKED_FOR, Line, RowRules, is_kept
from stream_jobs.persist.writer import CHUNK_BYTES_MAX

GIVEN_UP = "given_up"
_LINES_AT_ONCE = 100
_OF_EACH_LINE = 20
_ROWS_AT_ONCE = 200
_ONE_AT_A_TIME = b"SELECT pg_advisory_xact_lock(4729018806)"
# What a user has deferred to the end of a transaction would else be refused outside of the try.
_CHECKED_NOW = b"SET CONSTRAINTS ALL IMMEDIATE"
# Of one behind another: it has its turn when those before it have gone, and needs no time then.
_BEHIND_FIRST = b"""
    UPDATE headrace.waiting_row AS follower SET due_at = '9999-01-01Z'
    FROM (SELECT DISTINCT topic, line FROM headrace.waiting_row WHERE due_at <= now()) AS due
    CROSS JOIN LATERAL (
        SELECT partition, "offset", due_at FROM headrace.waiting_row AS one
        WHERE (one.line, one.topic) = (due.line, due.topic) ORDER BY partition, "offset" LIMIT 1
    ) AS first
    WHERE (follower.line, follower.topic) = (due.line, due.topic) AND NOT follower.given_up
      AND (follower.partition, follower."offset") <> (first.partition, first."offset")
      AND follower.due_at <= now() AND first.due_at > now()
"""
# Where some of a line were stored, the next has its turn at once.
_NEXT_HAS_ITS_TURN = b"""
    UPDATE headrace.waiting_row AS one SET due_at = now()
    FROM unnest(%s::text[], %s::text[]) AS served (topic, line)
    CROSS JOIN LATERAL (
        SELECT topic, partition, "offset" FROM headrace.waiting_row AS next
        WHERE (next.line, next.topic) = (served.line, served.topic)
        ORDER BY partition, "offset" LIMIT 1
    ) AS first
    WHERE (one.topic, one.partition, one."offset")
        = (first.topic, first.partition, first."offset") AND one.due_at = '9999-01-01Z'
"""
# Whoever removes a row by hand leaves a line whose first one has no time.
_FIRST_WITHOUT_TIME = b"""
    UPDATE headrace.waiting_row AS one SET due_at = now()
    WHERE due_at = '9999-01-01Z' AND NOT EXISTS (
        SELECT FROM headrace.waiting_row AS first
        WHERE (first.line, first.topic) = (one.line, one.topic)
          AND (first.partition, first."offset") < (one.partition, one."offset"))
"""
_DUE = b"""
    SELECT topic, line FROM (
        SELECT topic, line, due_at FROM headrace.waiting_row WHERE due_at <= now()
        ORDER BY due_at LIMIT 1000
    ) AS soonest GROUP BY topic, line ORDER BY min(due_at) LIMIT %s
"""
_NEXT = b"SELECT extract(epoch FROM min(due_at) - now())::float8 FROM headrace.waiting_row"
# time counts as long as somebody could try: an outage does not make a row old
_ROWS = b"""
    SELECT partition, "offset", key, value, headers, time_ms, tries, given_up,
           waited_s + coalesce(extract(epoch FROM least(
               now() - tried_at, due_at - tried_at + interval '60 s')), 0)::float8
    FROM (SELECT *, sum(octet_length(value)) OVER (ORDER BY partition, "offset")
                    - octet_length(value) AS bytes_before
          FROM (SELECT * FROM headrace.waiting_row WHERE (topic, line) = (%s, %s)
                ORDER BY partition, "offset" LIMIT %s) AS first_rows) AS counted
    WHERE coalesce(bytes_before, 0) < %s ORDER BY partition, "offset"
"""
_REMOVE = """
    DELETE FROM headrace.waiting_row
    USING unnest(%b::text[], %b::int[], %b::bigint[]) AS done (topic, partition, "offset")
    WHERE (waiting_row.topic, waiting_row.partition, waiting_row."offset")
        = (done.topic, done.partition, done."offset")
"""
_WAIT_ON = b"""
    UPDATE headrace.waiting_row
    SET tries = %s, waited_s = %s, tried_at = now(), due_at = now() + %s * interval '1 s',
        reason = %s, detail = %s
    WHERE (topic, partition, "offset") = (%s, %s, %s)
"""


class _Waiting(NamedTuple):
    row: Row
    tries: int
    given_up: bool
    age_s: float  # should it be refused now


class _Refusal(NamedTuple):
    sqlstate: str
    detail: str
    may_pass: bool


class LineServer:
    """Every method raises StoreAwayError where the store does not answer."""

    def __init__(
        self,
        connection: Connection,
        maker: RowMaker,
        rules: RowRules,
        slow_after_s: float,
        is_to_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_to_stop`: asked before each piece of work."""
        self._connection = connection
        self._maker = maker
        self._rules = rules
        self._slow_after_s = slow_after_s
        self._is_to_stop = is_to_stop
        self.parked = 0

    def begin(self) -> None:
        with judged_errors():
            self._connection.execute(_FIRST_WITHOUT_TIME)

    def serve(self) -> float | None:
        """All that is due. In how many seconds the next is; None: nothing waits."""
        with judged_errors():
            while not self._is_to_stop() and (lines := self._due()):
                if len(lines) == 1 or not self._serve_together(lines):
                    for topic, line in lines:
                        self._serve(topic, line)
            (next_s,) = self._connection.execute(_NEXT).fetchone() or (None,)
        return None if next_s is None else max(0.0, next_s)

    def _due(self) -> list[Line]:
        self._connection.execute(_BEHIND_FIRST)
        return self._connection.execute(_DUE, [_LINES_AT_ONCE]).fetchall()

    def _serve_together(self, lines: Sequence[Line]) -> bool:
        """What all of them wait for may have come: then it is a few statements. False where one of
        them is refused, and nothing is done."""
        with self._connection.transaction():
            self._begin()
            first: list[_Waiting] = []
            bytes_left = CHUNK_BYTES_MAX
            for line in lines:
                if bytes_left <= 0:
                    break  # those that are left stay due
                some = self._waiting(*line, _OF_EACH_LINE, bytes_left)
                bytes_left -= sum(len(one.row.record.value or b"") for one in some)
                first += some
            if any(one.given_up for one in first) or self._try(first) is not None:
                return False
            self._remove(first)
            self._connection.execute(_NEXT_HAS_ITS_TURN, [*map(list, zip(*lines, strict=True))])
            return True

    def _serve(self, topic: str, line: str) -> None:
        """Until it is empty, or the first of it is refused."""
        take = 1
        while take and not self._is_to_stop():
            # one for each try: what it locks nobody waits for longer than that
            with self._connection.transaction():
                self._begin()
                take = self._serve_first(
                    self._waiting(topic, line, max(take, _OF_EACH_LINE), CHUNK_BYTES_MAX), take
                )

    def _begin(self) -> None:
        self._connection.execute(_ONE_AT_A_TIME)
        self._connection.execute(LOCKED_FOR)

    def _waiting(self, topic: str, line: str, limit: int, bytes_max: int) -> list[_Waiting]:
        found = self._connection.execute(_ROWS, [topic, line, limit, bytes_max])
        return [
            _Waiting(
                self._row(
                    Record(
                        Position(topic, partition, offset),
                        key,
                        value,
                        header_pairs(headers),
                        time_ms,
                    )
                ),
                *known,
            )
            for partition, offset, key, value, headers, time_ms, *known in found
        ]

    def _row(self, record: Record) -> Row:
        topic = record.position.topic
        if self._maker.reads(topic):
            return self._maker.make(record)
        detail = f"the flow has no topic {topic} any more: put it back, then redrive this letter"
        return DeadLetter(record, "no_topic", detail)

    def _serve_first(self, rows: Sequence[_Waiting], take: int) -> int:
        """How many to take next; 0: none is left, or the first has to wait on."""
        if not rows:
            return 0
        if rows[0].given_up:
            self._park([one for one in rows if one.given_up], GIVEN_UP, "an operator gave it up")
            return 1
        are_states = isinstance(rows[0].row, StateRow | GoneRow)
        some = rows if are_states else rows[:take]
        refusal = self._try(some)
        if refusal is None:
            self._remove(some)
            return min(take * 2, _ROWS_AT_ONCE)
        if len(some) > 1 and not are_states:
            return 1
        return int(self._refused(some, refusal))

    def _try(self, rows: Iterable[_Waiting]) -> _Refusal | None:
        """Within a savepoint: of what is refused nothing stays."""
        try:
            with (
                store.answered_within(self._connection, self._slow_after_s * 2),
                judged_errors(),
                self._connection.transaction(),
            ):
                parked = TableWriter(self._connection).write(one.row for one in rows).parked
                self._connection.execute(_CHECKED_NOW)
                self.parked += parked
        except RowRefusedError as refused:
            return _Refusal(refused.sqlstate, refused.detail, refused.may_pass)
        except StoreAwayError as away:
            if not sqlstates.may_be_of_one_row(away.sqlstate):
                raise
            return _Refusal(away.sqlstate, str(away), may_pass=True)
        return None

    def _refused(self, rows: Sequence[_Waiting], refusal: _Refusal) -> bool:
        """False where the first of them has to wait on."""
        first, tries = rows[0], rows[0].tries + 1
        policy, detail = self._rules.policy_of(first.row), refusal.detail
        if not refusal.may_pass or policy.is_over(tries, int(first.age_s * 1000)):
            said = f"{refusal.sqlstate}: {detail}; it was tried {tries} times"
            self._park(rows, "refused_by_store", said)
            return True
        pause_s = policy.pause_ms(str(first.row.record.position), tries) / 1000
        told = tries, first.age_s, pause_s, refusal.sqlstate, detail.replace("\0", "\\0")
        self._connection.execute(_WAIT_ON, [*told, *first.row.record.position])
        return False

    def _park(self, rows: Sequence[_Waiting], reason: str, detail: str) -> None:
        letters = [
            DeadLetter(
                row.record,
                reason,
                detail,
                ledger_place=row.ledger_place if isinstance(row, EventRow) else None,
            )
            for row in uncovered([one.row for one in rows])
        ]
        self.parked += TableWriter(self._connection).write(letters).parked
        self._remove(rows)

    def _remove(self, rows: Iterable[_Waiting]) -> None:
        save(self._connection, _REMOVE, [one.row.record.position for one in rows])


def uncovered(rows: Sequence[Row]) -> list[Row]:
    """All but the snapshots that a later one or a null says anew."""
    left: list[Row] = []
    for row in rows:
        is_snapshot = isinstance(row, StateRow | GoneRow) and not is_kept(row)
        if is_snapshot and left and isinstance(left[-1], StateRow):
            left.pop()
        left.append(row)
    return left
