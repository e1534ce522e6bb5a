"""What an operator asks for, with what it takes to answer: API, page and command line ask here."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from clients.kafka.records import Record
from desk.letters import render
from desk.letters.dry_run import Trial, try_again
from desk.letters.redrive import Redriver, Sent
from desk.letters.redrive_store import RedriveBook
from desk.letters.redrive_target import Rewrite
from desk.letters.selection import Selection
from desk.letters.store import IndexedLetter, LetterBook, open_book, place_of
from desk.letters.topics import LetterLog, letter_of
from gateway.peers.lookup import Lookup
from shared.errors import StaleMasterDataError
from shared.flow import load_flow
from shared.model import Fields
from shared.published.dead_letters import Letter
from shared.settings import Settings
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.master_data_view import MasterView
from stream_jobs.persist.writer import EventStore

_MASTER_AGE_MAX_S = 86_400.0


class NoLetterError(Exception):
    """There is none of this id, or its bytes are gone."""


@contextmanager
def desk(settings: Settings) -> Iterator["Desk"]:
    """StoreAwayError or KafkaAwayError where a server that the answer needs is not there."""
    with open_book(settings) as book, LetterLog(settings) as log:
        yield Desk(settings, book, log)


class Desk:
    def __init__(self, settings: Settings, book: LetterBook, log: LetterLog) -> None:
        self.book = book
        self.redrives = RedriveBook(book)
        self.log = log
        self.settings = settings
        self._flow = load_flow(settings.flow)

    def show(self, letter_id: str) -> dict[str, Any]:
        known = self._known(letter_id)
        return render.document(known, self._record(known))

    def bytes_of(self, letter_id: str) -> bytes:
        return self._letter(self._known(letter_id)).value or b""

    def try_again(self, letter_id: str, change: Rewrite | None = None) -> Trial:
        known = self._known(letter_id)
        letter, attempt = self._letter(known), known.row["attempt"] + 1
        states = Lookup(self.settings)
        answers = Answers(self._flow, self.settings.registry)
        try:
            master = KnownMaster(self.settings)
            return try_again(self._flow, letter, attempt, change, master, states.find, answers.find)
        except StaleMasterDataError as stale:
            return Trial("waits", "stale_master_data", str(stale))
        finally:
            states.close()
            answers.close()

    def redrive(self, ids: Sequence[str], by: str, change: Rewrite | None = None) -> Sent:
        with self._redriver() as redriver:
            return redriver.send_now(ids, by, change)

    def redrive_changed(
        self, selection: Selection, by: str, change: Rewrite, how: str, per_second: float
    ) -> Iterator[Sent]:
        """Piece by piece; `how`: for the audit."""
        with self._redriver() as redriver:
            yield from redriver.send_changed(selection, by, change, how, per_second)

    @contextmanager
    def _redriver(self) -> Iterator[Redriver]:
        rows = EventStore(self.settings.postgres_url.get_secret_value())
        try:
            yield Redriver(self._flow, self.book, self.log, rows)
        finally:
            rows.close()

    def _known(self, letter_id: str) -> IndexedLetter:
        known = self.book.find(letter_id)
        if known is None:
            raise NoLetterError(f"there is no letter {letter_id!r}")
        return known

    def _letter(self, known: IndexedLetter) -> Letter:
        record = self._record(known)
        letter = None if record is None else letter_of(self._flow, record)
        if letter is None or letter.id != known.row["id"]:
            raise NoLetterError(f"the letter's bytes are no longer at {place_of(known.row)}")
        return letter

    def _record(self, known: IndexedLetter) -> Record | None:
        place = place_of(known.row)
        return self.log.at([place]).get(place)


class KnownMaster:
    """Read when it is asked for: it is read whole, and many payloads fail before that."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._view: MasterView | None = None

    def find(self, table: str, key: str) -> Fields | None:
        return self._read().find(table, key)

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        return self._read().find_at(table, key, time_ms)

    def _read(self) -> MasterView:
        if self._view is None:
            flow, kafka = load_flow(self._settings.flow), self._settings.kafka
            tables = flow.master_tables
            self._view = MasterView(kafka, tables, _MASTER_AGE_MAX_S, flow.timed_tables)
            self._view.refresh()
        return self._view

    def as_of_ms(self) -> Mapping[str, int]:
        """Up to when each table is known; empty where nothing was asked for."""
        return {} if self._view is None else self._view.as_of_ms()
