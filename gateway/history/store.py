"""Questions to PostgreSQL, a few at a time and in threads: whoever posts never waits for them."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from clients.postgres import store
from clients.postgres.store import Connection, answered_within, judged_errors
from gateway.http.problems import Problem, retry_after
from shared.errors import JobError, StoreAwayError

T = TypeVar("T")
Found = TypeVar("Found")
log = logging.getLogger(__name__)

_THREADS = 2
_WAITING_MAX = 16  # questions that wait for a thread, or have it
_SLOW_AFTER_S = 2.0
# whoever asks within it hears at once that nobody answered the one before
_AWAY_FOR_S = 1.0
_ENDED_BY_SERVER = "57014"


class HistoryStore:
    def __init__(self, url: str, about: str = "what states were") -> None:
        self._url = url
        self._about = about
        self._threads = ThreadPoolExecutor(_THREADS, "history")
        self._room = threading.Semaphore(_WAITING_MAX)
        self._away_until_s = 0.0

    async def ask(self, question: Callable[[Connection], T]) -> T:
        return await self.ask_and(question, lambda found: found)

    async def ask_and(
        self, question: Callable[[Connection], Found], then: Callable[[Found], T]
    ) -> T:
        """In one turn of a thread, so that no more is found than threads can work on."""
        try:
            return await self.work(lambda: then(self._ask(question)))
        except (JobError, psycopg.Error) as error:
            log.warning("what states were cannot be read from PostgreSQL: %s", error)
            raise _away() from None

    async def work(self, task: Callable[[], T]) -> T:
        """In one of the threads."""
        if not self._room.acquire(blocking=False):
            raise Problem(
                503,
                "too_many_questions",
                f"too many ask for {self._about} at once; ask again in a second",
                headers=retry_after(1),
            )
        working = self._threads.submit(task)
        working.add_done_callback(lambda _: self._room.release())  # also of one who has gone
        return await asyncio.wrap_future(working)

    def _ask(self, question: Callable[[Connection], T]) -> T:
        if time.monotonic() < self._away_until_s:
            raise StoreAwayError("it did not answer the one before")
        # one for each question: few ask, and nobody keeps a connection for those who do not
        try:
            with (
                store.connect(self._url, "history", _SLOW_AFTER_S) as connection,
                answered_within(connection, 2 * _SLOW_AFTER_S),
                judged_errors(),
            ):
                return question(connection)
        except StoreAwayError as away:
            # a statement that the server itself ended took too long: others may not
            if away.sqlstate != _ENDED_BY_SERVER:
                self._away_until_s = time.monotonic() + _AWAY_FOR_S
            raise


def _away() -> Problem:
    return Problem(
        503,
        "store_away",
        "PostgreSQL, which keeps what states were, does not answer now; ask again, or ask /state "
        "for the newest state, which needs no PostgreSQL",
        headers=retry_after(2),
    )
