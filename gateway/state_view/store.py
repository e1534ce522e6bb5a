"""The view on disk: one SQLite file, written by one process, read by many."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway.state_view import state_index
from gateway.state_view.division import DividedTopic, Division
from gateway.state_view.parts import SIGN, part_of
from gateway.state_view.records import Changes, DamagedError, Row, checksum
from gateway.state_view.state_index import StateIndex
from shared.tables.indexed_fields import IndexedStates

_FORMAT = 4
# changes are all over them: with SQLite's own 2 MiB each costs a third more
_CACHE_OF_INDEXES_KIB = 32 * 1024
_SCHEMA = f"""
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
{state_index.SCHEMA}
"""
_SCHEMA_OF_DIVIDED = """
CREATE TABLE IF NOT EXISTS gateway (url TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS divided (
  topic TEXT PRIMARY KEY, topic_id TEXT NOT NULL, partitions INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS trouble (words TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS leaving (topic TEXT PRIMARY KEY);
"""
_UPSERT = """
INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, key) DO UPDATE SET
  value = excluded.value, version = excluded.version, timestamp_ms = excluded.timestamp_ms,
  partition = excluded.partition, offset = excluded.offset, checksum = excluded.checksum
WHERE excluded.version IS NULL OR record.version IS NULL OR excluded.version >= record.version
"""

_DIVIDED = "SELECT topic, topic_id, partitions FROM divided"

_SWEPT_AT_ONCE = 2_000
_SWEEP = """
DELETE FROM record WHERE rowid IN (SELECT rowid FROM record WHERE topic = ? LIMIT ?)
"""
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
    def __init__(self, path: Path, indexed: Sequence[IndexedStates] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._db = _opened(path)
        if self._format() not in (0, _FORMAT):
            self._db.close()
            remove(path)
            self._db = _opened(path)
        if self._format() != _FORMAT:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT")
        self._db.executescript(_SCHEMA_OF_DIVIDED)
        self._inode = path.stat().st_ino
        self._index = StateIndex(self._db, indexed)
        if indexed:
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_OF_INDEXES_KIB}")
        with self._transaction():
            self._index.prepare()

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
            for table in ("record", "position", "leaving"):
                db.execute(f"DELETE FROM {table} WHERE topic = ?", (topic,))
            self._index.forget(topic)
            db.execute(
                "INSERT OR REPLACE INTO topic (name, topic_id) VALUES (?, ?)", (topic, topic_id)
            )

    def leave_topic(self, topic: str) -> None:
        """At once nobody finds anything of it; its records go little by little."""
        with self._transaction() as db:
            db.execute("DELETE FROM topic WHERE name = ?", (topic,))
            db.execute("DELETE FROM position WHERE topic = ?", (topic,))
            db.execute("INSERT OR IGNORE INTO leaving VALUES (?)", (topic,))
            self._index.forget(topic)

    def sweep(self) -> bool:
        """Removes some records of what was left; whether there are more."""
        left = self._db.execute("SELECT topic FROM leaving LIMIT 1").fetchone()
        if left is None:
            return False
        with self._transaction() as db:
            if db.execute(_SWEEP, (*left, _SWEPT_AT_ONCE)).rowcount < _SWEPT_AT_ONCE:
                db.execute("DELETE FROM leaving WHERE topic = ?", left)
        return True

    def divide(self, topic: str) -> None:
        """Each of its partitions becomes a part of its own, as far as it was read."""
        positions, parts = self.positions(topic), f"{topic}{SIGN}*"
        with self._transaction() as db:
            # what is left of an earlier time
            db.execute("DELETE FROM topic WHERE name GLOB ?", (parts,))
            for table in ("record", "position", "leaving"):
                db.execute(f"DELETE FROM {table} WHERE topic GLOB ?", (parts,))
            for partition, offset in positions.items():
                part = part_of(topic, partition)
                db.execute(
                    "INSERT OR REPLACE INTO topic SELECT ?, topic_id, warm, caught_up_ms, 0 "
                    "FROM topic WHERE name = ?",
                    (part, topic),
                )
                known = checksum(part.encode(), b"", partition, offset)
                db.execute(
                    "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?)",
                    (part, partition, offset, known),
                )
            db.execute(
                f"UPDATE OR REPLACE record SET topic = topic || '{SIGN}' || partition "
                "WHERE topic = ?",
                (topic,),
            )
            db.execute("DELETE FROM topic WHERE name = ?", (topic,))
            db.execute("DELETE FROM position WHERE topic = ?", (topic,))
            self._index.forget(topic)

    def division(self) -> Division:
        gateways = tuple(url for (url,) in self._db.execute("SELECT url FROM gateway"))
        topics = {name: DividedTopic(*its) for name, *its in self._db.execute(_DIVIDED)}
        trouble = self._db.execute("SELECT words FROM trouble").fetchone()
        return Division(gateways, topics, trouble[0] if trouble else "")

    def note_division(self, division: Division) -> None:
        topics = ((name, *its) for name, its in division.topics.items())
        with self._transaction() as db:
            for table in ("gateway", "divided", "trouble"):
                db.execute(f"DELETE FROM {table}")
            db.executemany("INSERT INTO gateway VALUES (?)", ((url,) for url in division.gateways))
            db.executemany("INSERT INTO divided VALUES (?, ?, ?)", topics)
            db.execute("INSERT INTO trouble VALUES (?)", (division.trouble,))

    def apply(self, changes: Changes) -> None:
        with self._transaction() as db:
            db.executemany("DELETE FROM record WHERE topic = ? AND key = ?", changes.deleted)
            db.executemany(_UPSERT, ((*row, _checksum_of(row)) for row in changes.rows.values()))
            self._index.apply(changes)
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

    def index_more(self) -> bool:
        """A little of what is to be indexed anew; whether there is more."""
        if not self._index.is_built:
            with self._transaction():
                self._index.build_some()
        return not self._index.is_built

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
