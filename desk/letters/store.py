"""The letters in PostgreSQL: what is known of each, what is to be done, and who did what."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
from psycopg.rows import DictRow, dict_row

from clients.postgres import outbox
from clients.postgres.store import Connection, connect, judged_errors, save
from desk.letters.redrive_target import discarded_payload
from desk.letters.selection import Selection, grouped_by
from shared import VERSION
from shared.events.envelope import Position
from shared.published import ledger
from shared.published.dead_letters import Attempt
from shared.published.ledger import Verdict
from shared.settings import Settings

_LISTED = (
    "id, status, cause, stage, endpoint, entity_id, tenant, hook, event_id, payload_sha256, bytes,"
    " times, attempt, detail, origin, software, first_parked, parked_at"
)

_UNDECIDED = """
    SELECT coalesce(sum(letters) FILTER (WHERE status = 'parked'), 0)::bigint AS parked,
           coalesce(sum(letters) FILTER (WHERE status = 'redriven'), 0)::bigint AS redriven,
           coalesce(sum(came_back) FILTER (WHERE status = 'parked'), 0)::bigint AS came_back,
           (SELECT extract(epoch FROM now() - min(first_parked))::float8
            FROM headrace.letter WHERE status = 'parked') AS oldest_s
    FROM headrace.letter_count
"""


class IndexedLetter(NamedTuple):
    row: DictRow
    attempts: list[Attempt]


def place_of(row: DictRow) -> Position:
    """Where its record is, in the dead-letter topic."""
    return Position(row["topic"], row["partition"], row["offset"])


@contextmanager
def open_book(settings: Settings) -> Iterator["LetterBook"]:
    """StoreAwayError where PostgreSQL does not answer."""
    with connect(settings.postgres_url.get_secret_value(), "desk") as connection:
        yield LetterBook(connection)


class LetterBook:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def page(
        self, selection: Selection, limit: int, after: str | None = None
    ) -> tuple[list[DictRow], str | None]:
        """The newest first, and what to give as `after` for those that follow, if any do."""
        condition, values = selection.where()
        if after is not None:
            at, _, id_ = after.rpartition(" ")
            condition += " AND (parked_at, id) < (%s::timestamptz, %s)"
            values += [at, id_]
        rows = self.rows(
            f"SELECT {_LISTED} FROM headrace.letter WHERE {condition}"
            " ORDER BY parked_at DESC, id DESC LIMIT %s",
            *values,
            limit + 1,
        )
        if len(rows) <= limit:
            return rows, None
        last = rows[limit - 1]
        return rows[:limit], f"{last['parked_at'].isoformat()} {last['id']}"

    def groups(self, by: str, selection: Selection, limit: int = 200) -> list[DictRow]:
        condition, values = selection.where()
        return self.rows(
            f"""SELECT {grouped_by(by)} AS {by}, count(*) AS letters, max(times) AS times_most,
                       min(first_parked) AS first_parked, max(parked_at) AS parked_at
                FROM headrace.letter WHERE {condition}
                GROUP BY 1 ORDER BY letters DESC, 1 LIMIT %s""",
            *values,
            limit,
        )

    def count(self, selection: Selection) -> int:
        condition, values = selection.where()
        query = f"SELECT count(*) FROM headrace.letter WHERE {condition}"
        return int(self.values(query, *values)[0][0])

    def mark(self) -> str:
        """For Selection.up_to: what is parked from now on is not meant, nor what comes back."""
        return str(self.values("SELECT pg_current_snapshot()::text")[0][0])

    def find(self, letter_id: str) -> IndexedLetter | None:
        rows = self.rows("SELECT * FROM headrace.letter WHERE id = %s", letter_id)
        attempts = self.values(
            """SELECT number, (extract(epoch FROM at) * 1000)::bigint, stage, cause, detail,
                      software
               FROM headrace.letter_attempt WHERE letter = %s ORDER BY number""",
            letter_id,
        )
        return IndexedLetter(rows[0], [Attempt(*one) for one in attempts]) if rows else None

    def parked(self, selection: Selection, limit: int | None = None) -> list[DictRow]:
        condition, values = selection.where()
        return self.rows(
            f"""SELECT * FROM headrace.letter WHERE {condition} AND status = 'parked'
                ORDER BY topic, partition, "offset" LIMIT %s""",
            *values,
            limit,
        )

    def claim(self, rows: Sequence[DictRow]) -> set[str]:
        """Those that nobody else was quicker with; in the caller's transaction."""
        claimed = self.values(
            """UPDATE headrace.letter SET status = 'redriven'
               FROM unnest(%b::text[], %b::int[]) AS given (id, attempt)
               WHERE (letter.id, letter.attempt) = (given.id, given.attempt)
                 AND letter.status = 'parked' RETURNING letter.id""",
            [row["id"] for row in rows],
            [row["attempt"] for row in rows],
        )
        return {id_ for (id_,) in claimed}

    def note_done(self, ids: Iterable[str]) -> None:
        with judged_errors():
            self.connection.execute(
                "UPDATE headrace.letter SET status = 'done' WHERE id = ANY(%s)", ([*ids],)
            )

    def note_failed_again(self, letter_id: str, cause: str, detail: str) -> None:
        """Notes what was tried here: no new record tells of it."""
        with judged_errors():
            self.connection.execute(
                """WITH again AS (
                       UPDATE headrace.letter
                       SET status = 'parked', cause = %s, detail = %s, software = %s,
                           attempt = attempt + 1, times = times + 1, parked_at = now(),
                           parked_in = pg_current_xact_id()
                       WHERE id = %s RETURNING *
                   )
                   INSERT INTO headrace.letter_attempt
                       (letter, number, at, stage, cause, detail, software)
                   SELECT id, attempt, parked_at, stage, cause, detail, software FROM again""",
                (cause, detail.replace("\0", "\\0"), VERSION, letter_id),
            )

    def stored(self, event_ids: Sequence[str]) -> set[str]:
        found = self.values(
            "SELECT event_id FROM headrace.event WHERE event_id = ANY(%s)", [*event_ids]
        )
        return {id_ for (id_,) in found}

    def out_of_turn(self, rows: Sequence[tuple[str, str, Position]]) -> set[str]:
        """The letters before whose rows others of the entity wait. `rows`: letters, with the entity
        and the place of the row that each is. What waits without order has lines of other names."""
        columns = [(id_, entity_id, *place) for id_, entity_id, place in rows]
        found = self.values(
            """SELECT DISTINCT given.id FROM headrace.waiting_row AS one
               JOIN unnest(%b::text[], %b::text[], %b::text[], %b::int[], %b::bigint[])
                   AS given (id, line, topic, partition, "offset") USING (line, topic)
               WHERE one.partition <> given.partition OR one."offset" < given."offset" """,
            *([*column] for column in zip(*columns, strict=True)),
        )
        return {id_ for (id_,) in found}

    def discard(self, selection: Selection, by: str, reason: str) -> int:
        """The ledger learns of it in the same transaction."""
        condition, values = selection.where()
        with judged_errors(), self.connection.transaction():
            discarded = self.values(
                f"""UPDATE headrace.letter SET status = 'discarded'
                    WHERE {condition} AND status = 'parked'
                    RETURNING stage, payload, entity_id, event_id, attempt,
                              (extract(epoch FROM arrived_at) * 1000)::bigint""",
                *values,
            )
            # of what fold could not take, persist tells the end
            places = [Position.parse(payload) for stage, payload, *_ in discarded
                      if payload and stage not in ("fold", "aggregate", "forward")]  # fmt: skip
            outbox.put(
                self.connection,
                (
                    discarded_payload(Position.parse(payload), *its)
                    for stage, payload, *its in discarded
                    if stage == "enrich" and payload and its[0]
                ),
            )
            save(
                self.connection,
                """INSERT INTO headrace.ledger_journal (topic, partition, first, verdicts)
                   SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::bytea[])""",
                list(ledger.entries((place, Verdict.DISCARDED) for place in places)),
            )
            if discarded:
                self.note(by, "discard", len(discarded), selection, reason)
        return len(discarded)

    def note(
        self, by: str, what: str, letters: int, selection: Selection, reason: str | None = None
    ) -> None:
        """For the audit; in the caller's transaction, if there is one."""
        with judged_errors():
            self.connection.execute(
                """INSERT INTO headrace.letter_audit (by, what, letters, selection, reason)
                   VALUES (%s, %s, %s, %s, %s)""",
                (by, what, letters, orjson.dumps(selection.told()).decode(), reason),
            )

    def audit(self, limit: int, before: int | None = None) -> list[DictRow]:
        """The newest first."""
        return self.rows(
            """SELECT seq, at, by, what, letters, selection, reason FROM headrace.letter_audit
               WHERE %s::bigint IS NULL OR seq < %s ORDER BY seq DESC LIMIT %s""",
            before,
            before,
            limit,
        )

    def undecided(self) -> dict[str, Any]:
        """What waits for an operator, and what is under way."""
        (found,) = self.rows(_UNDECIDED)
        return found

    def rows(self, query: str, *values: Any) -> list[DictRow]:
        with judged_errors(), self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode(), values).fetchall()

    def values(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with judged_errors():
            return self.connection.execute(query.encode(), values).fetchall()
