"""The view's file as a reader has it open: it may go at any moment, and another one come."""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.state_view.records import checksum
from gateway.state_view.store import remove, view_path

log = logging.getLogger(__name__)

_BUSY_S = 0.05
_LOOK_AT_FILE_EVERY_S = 1.0


class ViewFile:
    """The view's file, as one thread has it open."""

    def __init__(self, state_dir: Path) -> None:
        self._path = view_path(state_dir)
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self._file_due_s = 0.0

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    @contextmanager
    def at_one_moment(self) -> Iterator[sqlite3.Connection | None]:
        """All that is asked there is of the same moment. sqlite3.Error where the file fails, after
        which it is opened again; None where there is none."""
        db = self._connection()
        if db is None:
            yield None
            return
        try:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()
            raise

    def are_sound(self, rows: list[tuple[Any, ...]]) -> bool:
        """Else the view is removed, and the writer makes it anew: better late than wrong."""
        if all(checksum(*fields) == known for *fields, known in rows):
            return True
        self.discard()
        return False

    def discard(self) -> None:
        log.error("a row of the view is not what was written: the view is made anew from Kafka")
        if self._path.exists() and self._path.stat().st_ino == self._inode:
            remove(self._path)
        self.close()

    def query(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Nothing where there is no view yet."""
        try:
            db = self._connection()
            return [] if db is None else db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            log.warning("cannot read the view, opening it again: %s", error)
            self.close()
            return []

    def _connection(self) -> sqlite3.Connection | None:
        if self._db is None or time.monotonic() >= self._file_due_s:
            self._file_due_s = time.monotonic() + _LOOK_AT_FILE_EVERY_S
            self._notice_new_file()
        return self._db

    def _notice_new_file(self) -> None:
        # a file that was removed and made again is another file under the same name
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            inode = 0
        if inode != self._inode or self._db is None:
            self.close()
            self._inode = inode
            if inode:
                self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        address = f"{self._path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_S)
        db.execute("PRAGMA query_only = ON")
        return db
