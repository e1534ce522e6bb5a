"""Which events were handled: the newest ids, in memory or in a file that outlives the process."""

import sqlite3
from hashlib import blake2b
from pathlib import Path

from .events import Event

_TRIMMED_EVERY = 1000
_DIGEST_BYTES = 16


class RepeatFilter:
    """Remembers the newest `ids_max` ids, of which each takes some 60 bytes. A repeat that comes
    after more other events than that is not known as one.

    With a `path` it remembers them in an SQLite file, also after a kill: what was handled is on
    disk before its offset is committed. After a power loss the last ones may be missing.
    """

    def __init__(self, path: str | Path | None = None, ids_max: int = 100_000) -> None:
        if ids_max < 0:
            raise ValueError(f"ids_max is {ids_max}: name 0, which hides no repeat, or more")
        self.ids_max = ids_max
        self._added = 0
        where = ":memory:" if path is None else path
        # the consumer may run in another thread than the one that made it
        self._db = sqlite3.connect(where, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS seen (number INTEGER PRIMARY KEY, id BLOB UNIQUE) STRICT"
        )

    def knows(self, group: str, event: Event[object]) -> bool:
        if not self.ids_max or not event.has_id:
            return False
        found = self._db.execute("SELECT 1 FROM seen WHERE id = ?", (_digest(group, event),))
        return found.fetchone() is not None

    def add(self, group: str, event: Event[object]) -> None:
        if not self.ids_max or not event.has_id:
            return
        self._db.execute("INSERT OR IGNORE INTO seen (id) VALUES (?)", (_digest(group, event),))
        self._added += 1
        if self._added % min(_TRIMMED_EVERY, self.ids_max) == 0:
            self._db.execute(
                "DELETE FROM seen WHERE number <= (SELECT max(number) FROM seen) - ?",
                (self.ids_max,),
            )

    def close(self) -> None:
        self._db.close()


def _digest(group: str, event: Event[object]) -> bytes:
    """A correction has the id of what it corrects, and is no repeat of it."""
    told = f"{group}\0{event.type}\0{event.revision}\0{event.id}"
    return blake2b(told.encode(), digest_size=_DIGEST_BYTES).digest()
