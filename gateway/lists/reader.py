"""Lists are read in a thread: what is looked at for one takes milliseconds, which the event loop
has for nobody."""

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from gateway.lists.list_request import Asked
from gateway.lists.page import is_indexed, keys_of, stored
from gateway.pages.turns import Turns
from gateway.state_view.reader import Progress
from gateway.state_view.view_file import ViewFile

log = logging.getLogger(__name__)

_WAITING_MAX = 64  # a worker; the thread reads one after the other
_PROGRESS = "SELECT warm, caught_up_ms FROM topic WHERE name = ?"


class Page(NamedTuple):
    progress: Progress
    is_indexed: bool
    states: list[dict[str, Any]]
    next: str | None


_NOTHING_YET = Page(Progress(False, None), False, [], None)


class ListReader:
    def __init__(self, state_dir: Path) -> None:
        self._file = ViewFile(state_dir)
        self._thread: ThreadPoolExecutor | None = None
        self._turns = Turns(_WAITING_MAX, "too_many_lists", "too many ask for lists at once")

    async def start(self) -> None:
        """With the first list."""

    async def stop(self) -> None:
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown()
            self._thread = None

    async def page(self, asked: Asked) -> Page:
        with self._turns.one():
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "lists")
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, asked)

    def _read(self, asked: Asked) -> Page:
        try:
            return self._read_file(asked)
        except sqlite3.Error as error:
            log.warning("cannot read the view, opening it again: %s", error)
            return _NOTHING_YET

    def _read_file(self, asked: Asked) -> Page:
        with self._file.at_one_moment() as db:
            if db is None:
                return _NOTHING_YET
            row = db.execute(_PROGRESS, (asked.states.topic,)).fetchone()
            if row is None:
                return _NOTHING_YET
            progress = Progress(bool(row[0]), row[1])
            if not progress.warm or not is_indexed(db, asked):
                return Page(progress, False, [], None)
            keys = keys_of(db, asked)
            found = stored(db, asked, keys)
        # a row that is not what was written is shown to nobody, and neither is a wrong list
        if not self._file.are_sound(found.rows):
            return _NOTHING_YET
        if not found.is_as_indexed:
            self._file.discard()
            return _NOTHING_YET
        after = None if found.after is None else asked.token(found.after)
        return Page(progress, True, found.told(), after)
