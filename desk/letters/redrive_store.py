"""Redrives of many letters in PostgreSQL: what is asked for, how far it has come. One goes on where
it was stopped, whoever works on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
from psycopg.rows import DictRow

from clients.postgres.store import judged_errors
from desk.letters.selection import Selection
from desk.letters.store import LetterBook
from shared.events.envelope import Position

_TOLD = "id, status, selection, per_second, by, begun_at, letters, sent, refused, refusal, after"


class Redrive(NamedTuple):
    id: int
    status: str
    selection: dict[str, Any]
    per_second: float
    by: str
    begun_at: Any
    letters: int
    sent: int
    refused: int
    refusal: str | None  # the last one
    after: str

    @property
    def told(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "after"}


class RedriveBook:
    def __init__(self, book: LetterBook) -> None:
        self._book = book
        self._connection = book.connection

    def begin(self, selection: Selection, per_second: float, by: str) -> Redrive:
        """Begins with what is parked now, or was when it was shown; what comes back is for another
        one."""
        selection = selection._replace(up_to=selection.up_to or self._book.mark())
        with judged_errors(), self._connection.transaction():
            letters = self._book.count(selection._replace(status="parked"))
            (redrive,) = self._redrives(
                f"""INSERT INTO headrace.redrive (status, selection, per_second, by, letters)
                    VALUES ('running', %s, %s, %s, %s) RETURNING {_TOLD}""",
                orjson.dumps(selection.told()).decode(),
                per_second,
                by,
                letters,
            )
            self._book.note(by, "redrive", letters, selection)
        return redrive

    def change(self, redrive_id: int, status: str, by: str) -> Redrive | None:
        """'stopped' or 'running'; None where there is none that is not done."""
        with judged_errors(), self._connection.transaction():
            changed = self._redrives(
                f"""UPDATE headrace.redrive SET status = %s WHERE id = %s AND status <> 'done'
                    RETURNING {_TOLD}""",
                status,
                redrive_id,
            )
            for redrive in changed:
                what = "stop redrive" if status == "stopped" else "resume redrive"
                left = redrive.letters - redrive.sent - redrive.refused
                self._book.note(by, what, left, Selection.of(redrive.selection))
        return changed[0] if changed else None

    def latest(self, limit: int = 50) -> list[Redrive]:
        return self._redrives(
            f"SELECT {_TOLD} FROM headrace.redrive ORDER BY id DESC LIMIT %s", limit
        )

    def find(self, redrive_id: int) -> Redrive | None:
        found = self._redrives(f"SELECT {_TOLD} FROM headrace.redrive WHERE id = %s", redrive_id)
        return found[0] if found else None

    def running(self) -> list[Redrive]:
        return self._redrives(
            f"SELECT {_TOLD} FROM headrace.redrive WHERE status = 'running' ORDER BY id"
        )

    @contextmanager
    def held(self, redrive_id: int) -> Iterator[Redrive | None]:
        """In a transaction, by one at a time; None where it does not run or another holds it."""
        with judged_errors(), self._connection.transaction():
            found = self._redrives(
                f"""SELECT {_TOLD} FROM headrace.redrive
                    WHERE id = %s AND status = 'running' FOR UPDATE SKIP LOCKED""",
                redrive_id,
            )
            yield found[0] if found else None

    def next_letters(self, redrive: Redrive, limit: int) -> list[DictRow]:
        """In the order of their topics, which is how they are read."""
        condition, values = Selection.of(redrive.selection).where()
        after = Position.parse(redrive.after)
        return self._book.rows(
            f"""SELECT * FROM headrace.letter
                WHERE {condition} AND status = 'parked'
                  AND (topic, partition, "offset") > (%s, %s, %s)
                ORDER BY topic, partition, "offset" LIMIT %s""",
            *values,
            *after,
            limit,
        )

    def note_progress(
        self, redrive_id: int, after: Position, sent: int, refusals: list[str]
    ) -> None:
        self._connection.execute(
            """UPDATE headrace.redrive
               SET after = %s, sent = sent + %s, refused = refused + %s,
                   refusal = coalesce(%s, refusal) WHERE id = %s""",
            (str(after), sent, len(refusals), refusals[-1] if refusals else None, redrive_id),
        )

    def note_end(self, redrive_id: int) -> None:
        self._connection.execute(
            "UPDATE headrace.redrive SET status = 'done' WHERE id = %s", (redrive_id,)
        )

    def _redrives(self, query: str, *values: Any) -> list[Redrive]:
        with judged_errors():
            return [Redrive(*row) for row in self._connection.execute(query.encode(), values)]
