"""The view on disk: one SQLite file, written by one process, read by many."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from clients.kafka.records import Partition

_FORMAT = 3
_SCHEMA = """
CREATE TABLE record (
  topic TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, version INTEGER,
  timestamp_ms INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (topic, key));
CREATE INDEX changed ON record (topic, partition, offset) WHERE topic GLOB 'view.*';
CREATE TABLE topic (
  name TEXT PRIMARY KEY, topic_id TEXT NOT NULL, warm INTEGER NOT NULL DEFAULT 0,
  caught_up_ms INTEGER, skipped INTEGER NOT NULL DEFAULT 0);
CREATE TABLE position (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (topic, partition));
"""
_UPSERT = """
INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, key) DO UPDATE SET
  value = excluded.value, version = excluded.version, timestamp_ms = excluded.timestamp_ms,
  partition = excluded.partition, offset = excluded.offset, checksum = excluded.checksum
WHERE excluded.version IS NULL OR record.version IS NULL OR excluded.version >= record.version
"""


class Row(NamedTuple):
    topic: str
    key: bytes
    value: bytes
    version: int | None
    timestamp_ms: int
    partition: int
    offset: int


class DamagedError(Exception):
    """A row is not what was written: SQLite itself does not see that."""


def checksum(key: bytes, value: bytes, *numbers: int | None) -> int:
    return crc32(b" ".join((key, value, *(b"%d" % (number or 0) for number in numbers))))


class Changes:
    """What a batch of records comes to: per key the last one counts."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, bytes], Row] = {}
        self.deleted: set[tuple[str, bytes]] = set()
        self.positions: dict[Partition, int] = {}
        self.skipped: dict[str, int] = {}

    def put(self, row: Row) -> None:
        earlier = self.rows.get((row.topic, row.key))
        if earlier is None or (row.version or 0) >= (earlier.version or 0):
            self.rows[row.topic, row.key] = row

    def delete(self, topic: str, key: bytes) -> None:
        self.rows.pop((topic, key), None)
        self.deleted.add((topic, key))

    def skip(self, topic: str) -> None:
        self.skipped[topic] = self.skipped.get(topic, 0) + 1


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_damaged(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in _DAMAGED


def remove(path: Path) -> None:
    """Nothing is lost: what the view holds stands in Kafka."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def view_path(state_dir: Path) -> Path:
    return state_dir / "view" / "state.sqlite"


class ViewStore:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._db = _opened(path)
        if self._format() not in (0, _FORMAT):
            self._db.close()
            remove(path)
            self._db = _opened(path)
        if self._format() != _FORMAT:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT")
        self._inode = path.stat().st_ino

    def _format(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def is_there(self) -> bool:
        """Or a reader has found damage, and has removed it."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._db.close()

    def topic_ids(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT name, topic_id FROM topic"))

    def caught_up_ms(self, topic: str) -> int | None:
        row = self._db.execute("SELECT caught_up_ms FROM topic WHERE name = ?", (topic,)).fetchone()
        return row[0] if row else None

    def positions(self, topic: str) -> dict[int, int]:
        """DamagedError where one is not what was written."""
        query = "SELECT partition, next_offset, checksum FROM position WHERE topic = ?"
        rows = self._db.execute(query, (topic,)).fetchall()
        if any(known != checksum(topic.encode(), b"", *numbers) for *numbers, known in rows):
            raise DamagedError(f"how far {topic} was read is not what was written")
        return {partition: offset for partition, offset, _ in rows}

    def begin_topic(self, topic: str, topic_id: str) -> None:
        """Forgets what is known of the topic: it will be read again from its start."""
        with self._transaction() as db:
            for table in ("record", "position"):
                db.execute(f"DELETE FROM {table} WHERE topic = ?", (topic,))
            db.execute(
                "INSERT OR REPLACE INTO topic (name, topic_id) VALUES (?, ?)", (topic, topic_id)
            )

    def apply(self, changes: Changes) -> None:
        with self._transaction() as db:
            db.executemany("DELETE FROM record WHERE topic = ? AND key = ?", changes.deleted)
            db.executemany(_UPSERT, ((*row, _checksum_of(row)) for row in changes.rows.values()))
            db.executemany(
                "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?)",
                (
                    (t, p, offset, checksum(t.encode(), b"", p, offset))
                    for (t, p), offset in changes.positions.items()
                ),
            )
            db.executemany(
                "UPDATE topic SET skipped = skipped + ? WHERE name = ?",
                ((count, topic) for topic, count in changes.skipped.items()),
            )

    def caught_up(self, topics: Iterable[str], at_ms: int) -> None:
        with self._transaction() as db:
            db.executemany(
                "UPDATE topic SET warm = 1, caught_up_ms = ? WHERE name = ?",
                ((at_ms, topic) for topic in topics),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=10)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _checksum_of(row: Row) -> int:
    return checksum(row.key, row.value, row.version, row.timestamp_ms, row.partition, row.offset)
