"""Dead-letter topics -> the index in PostgreSQL. How far it has come stands in the same transaction
as what it has read: the topics are the truth, and no outage of either makes it lose a letter."""

import logging
import threading
import time
from collections.abc import Callable

from desk.letter_book import LetterBook
from desk.letter_log import LetterLog, LogAwayError
from shared import letters
from shared.flow import load_flow
from shared.settings import Settings
from shared.topology import Flow
from stream_jobs import store

_log = logging.getLogger(__name__)
_POLL_S = 0.5
_AGAIN_AFTER_S = 2.0
_NEW_PARTITIONS_S = 30.0


def run(settings: Settings, stop: threading.Event) -> None:
    """Until `stop` is set, whatever happens to PostgreSQL and Kafka meanwhile."""
    flow = load_flow(settings.flow)
    while not stop.is_set():
        try:
            with (
                store.connect(settings.postgres_url.get_secret_value(), "desk-index") as connection,
                LetterLog(settings) as log,
            ):
                follow(flow, log, LetterBook(connection), stop.is_set)
        except (store.StoreAwayError, LogAwayError) as away:
            _log.warning("letters are not indexed now: %s", away)
        except Exception:
            _log.exception("letters could not be indexed, trying again")
        stop.wait(_AGAIN_AFTER_S)


def follow(flow: Flow, log: LetterLog, book: LetterBook, ends: Callable[[], bool]) -> None:
    while not book.take_lead():
        if ends():
            return
        time.sleep(_POLL_S)
    look_again_s = 0.0
    while not ends():
        if time.monotonic() >= look_again_s:
            log.go_on_from(book.places())
            look_again_s = time.monotonic() + _NEW_PARTITIONS_S
        if not read_on(flow, log, book, _POLL_S):
            book.note_stored()


def read_on(flow: Flow, log: LetterLog, book: LetterBook, timeout_s: float) -> int:
    """How many records it has read."""
    records, places = log.read_on(timeout_s)
    if records:
        book.index([letters.read(flow, *record) for record in records], places)
    return len(records)
