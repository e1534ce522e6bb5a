"""Letters -> the stage that could not do them, once each, whoever asks for it and how often."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from psycopg.rows import DictRow

from clients.kafka.records import Outgoing
from clients.postgres import outbox, store
from clients.postgres.store import judged_errors
from desk.letters.redrive_store import RedriveBook
from desk.letters.redrive_target import (
    RedriveTarget,
    ResendError,
    Rewrite,
    RowToStore,
    redrive_target,
)
from desk.letters.selection import Selection
from desk.letters.store import LetterBook, place_of
from desk.letters.topics import LetterLog, letter_of
from shared.errors import StoreAwayError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.kafka_access import KafkaAwayError
from shared.settings import Settings
from stream_jobs.persist.rows import DeadLetter, EventRow
from stream_jobs.persist.writer import EventStore

_log = logging.getLogger(__name__)
_POLL_S = 0.5
_AGAIN_AFTER_S = 2.0
AT_ONCE_MAX = 200
_AT_ONCE_BYTES_MAX = 8 * 1024 * 1024


class Sent(NamedTuple):
    ids: list[str]
    refusals: dict[str, str]  # by letter


class Redriver:
    def __init__(self, flow: Flow, book: LetterBook, log: LetterLog, rows: EventStore) -> None:
        self._flow = flow
        self._book = book
        self._log = log
        self._rows = rows

    def send_now(self, ids: Sequence[str], by: str, change: Rewrite | None = None) -> Sent:
        """A few, and at once."""
        selection = Selection(ids=tuple(ids))
        parked = self._book.parked(selection, AT_ONCE_MAX)
        sent = self.send(parked, change)
        others = set(ids) - {row["id"] for row in parked}
        why = "it is not parked: there is none, or it was redriven or discarded before"
        if sent.ids:
            what = "redrive" if change is None else "redrive changed"
            self._book.note(by, what, len(sent.ids), Selection(ids=tuple(sent.ids)))
        return Sent(sent.ids, {**sent.refusals, **dict.fromkeys(sorted(others), why)})

    def send_changed(
        self, selection: Selection, by: str, change: Rewrite, how: str, per_second: float
    ) -> Iterator[Sent]:
        """Sends what is parked now; what comes back meanwhile is for another time."""
        rows = self._book.parked(selection)
        if rows:
            self._book.note(by, "redrive changed", len(rows), selection, how)
        while rows:
            begun_s = time.monotonic()
            few, rows = _first_few(rows, _at_once(per_second))
            yield self.send(few, change)
            if rows:
                time.sleep(max(0.0, begun_s + len(few) / per_second - time.monotonic()))

    def send(self, rows: Sequence[DictRow], change: Rewrite | None = None) -> Sent:
        ways, refusals = self._ways(rows, change)
        tried = self._try_here(ways)
        with judged_errors(), self._book.connection.transaction():
            claimed = self._book.claim([row for row in rows if row["id"] in ways])
            sent = (way for id_, way in ways.items() if id_ in claimed)
            outbox.put(self._book.connection, (way for way in sent if isinstance(way, Outgoing)))
            self._book.note_done(id_ for id_ in claimed & tried.keys() if not tried[id_])
            for id_ in claimed & tried.keys():
                if failure := tried[id_]:
                    self._book.note_failed_again(id_, *failure)
                    refusals[id_] = ": ".join(failure)
        return Sent([row["id"] for row in rows if row["id"] in claimed - refusals.keys()], refusals)

    def _ways(
        self, rows: Sequence[DictRow], change: Rewrite | None
    ) -> tuple[dict[str, RedriveTarget], dict[str, str]]:
        places = {row["id"]: place_of(row) for row in rows}
        records = self._log.at(places.values())
        ways: dict[str, RedriveTarget] = {}
        refusals: dict[str, str] = {}
        for row in rows:
            record = records.get(places[row["id"]])
            letter = None if record is None else letter_of(self._flow, record)
            try:
                if letter is None or letter.id != row["id"]:
                    raise ResendError(f"its bytes are no longer at {places[row['id']]}")
                ways[row["id"]] = redrive_target(self._flow, letter, row["attempt"] + 1, change)
            except ResendError as refused:
                refusals[row["id"]] = str(refused)
        for id_ in self._out_of_turn(ways):
            del ways[id_]
            refusals[id_] = (
                "rows of its entity that came before it wait for PostgreSQL still "
                "(./headrace waiting list): redrive it once they are stored"
            )
        return ways, refusals

    def _out_of_turn(self, ways: Mapping[str, RedriveTarget]) -> set[str]:
        rows = {id_: way.row for id_, way in ways.items() if isinstance(way, RowToStore)}
        ordered = [
            (id_, row.entity_id if isinstance(row, EventRow) else row.id, row.record.position)
            for id_, row in rows.items()
            if not isinstance(row, DeadLetter)
        ]
        return self._book.out_of_turn(ordered) if ordered else set()

    def _try_here(self, ways: Mapping[str, RedriveTarget]) -> dict[str, tuple[str, str] | None]:
        """persist's own step. It may be done twice, so it is done before anyone is told of it; with
        what was wrong this time, if anything."""
        rows = {id_: way.row for id_, way in ways.items() if isinstance(way, RowToStore)}
        fit = {id_: row for id_, row in rows.items() if not isinstance(row, DeadLetter)}
        if fit:
            self._rows.write([*fit.values()])
        stored = self._book.stored(
            [row.event_id for row in fit.values() if isinstance(row, EventRow)]
        )
        tried: dict[str, tuple[str, str] | None] = {}
        for id_, row in rows.items():
            tried[id_] = None
            if isinstance(row, DeadLetter):
                tried[id_] = (row.reason, row.detail)
            elif isinstance(row, EventRow) and row.event_id not in stored:
                tried[id_] = ("refused_by_store", "PostgreSQL refuses it still")
        return tried


def run(settings: Settings, stop: threading.Event) -> None:
    """Works on the redrives of many letters until `stop` is set, whatever happens to PostgreSQL and
    Kafka meanwhile."""
    flow = load_flow(settings.flow)
    url = settings.postgres_url.get_secret_value()
    while not stop.is_set():
        rows = EventStore(url)
        try:
            with store.connect(url, "desk-redrive") as connection, LetterLog(settings) as log:
                book = LetterBook(connection)
                work(Redriver(flow, book, log, rows), RedriveBook(book), stop)
        except (StoreAwayError, KafkaAwayError) as away:
            _log.warning("nothing is redriven now: %s", away)
        except Exception:
            _log.exception("letters could not be redriven, trying again")
        finally:
            rows.close()
        stop.wait(_AGAIN_AFTER_S)


def work(redriver: Redriver, redrives: RedriveBook, stop: threading.Event) -> None:
    due_s: dict[int, float] = {}
    while not stop.is_set():
        for redrive in redrives.running():
            begun_s = time.monotonic()
            if due_s.get(redrive.id, 0.0) <= begun_s:
                looked_at = step(redriver, redrives, redrive.id, _at_once(redrive.per_second))
                due_s[redrive.id] = begun_s + looked_at / redrive.per_second
        now_s = time.monotonic()
        due_s = {id_: due for id_, due in due_s.items() if due > now_s}
        stop.wait(min((due - now_s for due in due_s.values()), default=_POLL_S))


def _at_once(per_second: float) -> int:
    return max(1, min(AT_ONCE_MAX, round(per_second / 2)))


def step(redriver: Redriver, redrives: RedriveBook, redrive_id: int, at_once: int) -> int:
    """How many letters it has looked at. What it did and how far it came are one transaction."""
    with redrives.held(redrive_id) as redrive:
        if redrive is None:
            return 0
        rows, _ = _first_few(redrives.next_letters(redrive, at_once), at_once)
        if not rows:
            redrives.note_end(redrive_id)
            return 0
        sent = redriver.send(rows)
        refusals = [*sent.refusals.values()]
        redrives.note_progress(redrive_id, place_of(rows[-1]), len(sent.ids), refusals)
        return len(rows)


def _first_few(rows: list[DictRow], at_once: int) -> tuple[list[DictRow], list[DictRow]]:
    """One, and as many more as fit into memory with it; and the others."""
    sizes = accumulate(row["bytes"] for row in rows[:at_once])
    count = max(1, sum(size <= _AT_ONCE_BYTES_MAX for size in sizes))
    return rows[:count], rows[count:]
