"""Who did what of that which stands in Kafka: webhooks, credentials, orders for jobs."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from desk.letters.selection import Selection
from desk.letters.store import LetterBook
from shared.errors import StoreAwayError

_log = logging.getLogger(__name__)
OpenBook = Callable[[], AbstractContextManager[LetterBook]]


class Audit:
    def __init__(self, open_book: OpenBook) -> None:
        self._open_book = open_book

    def note(self, by: str, what: str, its: Selection, count: int = 1, reason: str = "") -> None:
        """Notes what is done, which is answered as done whatever becomes of the note. A secret that
        got out must be revoked without PostgreSQL, too: then the log has the only word of it."""
        try:
            with self._open_book() as book:
                book.note(by, what, count, its, reason or None)
        except Exception as error:
            said = ", ".join(f"{name} {value}" for name, value in its.told().items())
            _log.warning(
                "not in the audit: %s: %s: %s: %s; %s",
                *(by, what, said, reason, error),
                exc_info=not isinstance(error, StoreAwayError),
            )
