"""What the view knows of states beside their bytes: for each entity with indexed fields a table of
their values, kept in the transactions that write the states. Made anew from these, not from Kafka,
where the flow declares other fields."""

import sqlite3
from collections.abc import Mapping, Sequence

import orjson

from gateway.state_view.records import Changes, DamagedError, Row, checksum
from shared.folding.snapshot import META
from shared.ids import FULL_ID, tenant_of
from shared.tables.indexed_fields import IndexedStates

# built_to: the last key of the states that are in it; null: all of them are
SCHEMA = """
CREATE TABLE state_index (
  topic TEXT PRIMARY KEY, name TEXT NOT NULL, declared TEXT NOT NULL, built_to BLOB);
"""
_FORMAT = 1  # of the tables: what another one has written is made anew
_ROWS_AT_ONCE = 2_000
_SOME = """
SELECT key, value, version, timestamp_ms, partition, offset, checksum FROM record
WHERE topic = ? AND key > ? ORDER BY key LIMIT ?
"""


_KNOWN = """
SELECT r.version, l.* FROM record r LEFT JOIN {table} l ON l.key = r.key
WHERE r.topic = ? AND r.key = ?
"""


def table_of(states: IndexedStates) -> str:
    return f"states_{states.entity}"


def column_of(states: IndexedStates, field: str) -> str:
    names = [one.name for one in states.fields]
    return f"f{names.index(field)}"


def declared(states: IndexedStates) -> str:
    return f"{_FORMAT} {states.declared}"


class StateIndex:
    """`db` is that of the store; who calls has begun a transaction, but for `prepare`."""

    def __init__(self, db: sqlite3.Connection, states: Sequence[IndexedStates]) -> None:
        self._db = db
        self._by_topic: Mapping[str, IndexedStates] = {its.topic: its for its in states}
        self._unbuilt: list[IndexedStates] = []

    def prepare(self) -> None:
        """What is not of this flow goes; what is new begins empty."""
        query = "SELECT topic, name, declared, built_to IS NULL FROM state_index"
        known = {topic: told for topic, *told in self._db.execute(query)}
        wanted = {topic: declared(its) for topic, its in self._by_topic.items()}
        for topic, (name, its, _) in known.items():
            if wanted.get(topic) != its:
                self._db.execute(f"DROP TABLE IF EXISTS {name}")
                self._db.execute("DELETE FROM state_index WHERE topic = ?", (topic,))
        for topic, states in self._by_topic.items():
            _, its, is_built = known.get(topic, (None, None, False))
            if its != wanted[topic]:
                self._create(states)
            if its != wanted[topic] or not is_built:
                self._unbuilt.append(states)

    def _create(self, states: IndexedStates) -> None:
        columns = ", ".join(_columns(states))
        self._db.execute(
            f"CREATE TABLE {table_of(states)} (key BLOB PRIMARY KEY, {columns}) WITHOUT ROWID"
        )
        self._db.execute(
            "INSERT INTO state_index VALUES (?, ?, ?, x'')",
            (states.topic, table_of(states), declared(states)),
        )

    def apply(self, changes: Changes) -> None:
        """After the store's own table has taken them."""
        for topic, states in self._by_topic.items():
            gone = [(key,) for its, key in changes.deleted if its == topic]
            self._db.executemany(f"DELETE FROM {table_of(states)} WHERE key = ?", gone)
            rows = [row for row in changes.rows.values() if row.topic == topic]
            self._put(states, rows)

    def forget(self, topic: str) -> None:
        if topic in self._by_topic:
            self._db.execute(f"DELETE FROM {table_of(self._by_topic[topic])}")

    @property
    def is_built(self) -> bool:
        return not self._unbuilt

    def build_some(self) -> None:
        """DamagedError where a state is not what was written."""
        states = self._unbuilt[0]
        query = "SELECT built_to FROM state_index WHERE topic = ?"
        after = self._db.execute(query, (states.topic,)).fetchone()[0]
        found = self._db.execute(_SOME, (states.topic, after, _ROWS_AT_ONCE)).fetchall()
        if any(checksum(*fields) != known for *fields, known in found):
            raise DamagedError(f"a state of {states.entity} is not what was written")
        self._put(states, [Row(states.topic, *fields) for *fields, _ in found])
        place = found[-1][0] if found else after
        if len(found) < _ROWS_AT_ONCE and not self._add_index(states):
            place = None
            self._unbuilt.pop(0)
        self._db.execute(
            "UPDATE state_index SET built_to = ? WHERE topic = ?", (place, states.topic)
        )

    def _add_index(self, states: IndexedStates) -> bool:
        """One at a time, for each takes seconds where states are many; whether there was one to
        add. They come last: an index of what is there already is made sooner than one that grows.
        """
        table = table_of(states)
        query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
        there = {name for (name,) in self._db.execute(query, (table,))}
        wanted = {f"{table}_{column}": f"{column}, key" for column in _columns(states)[1:]}
        wanted[f"{table}_key"] = "key"
        for name, columns in wanted.items():
            if name not in there:
                self._db.execute(f"CREATE INDEX {name} ON {table} (tenant, {columns})")
                return True
        return False

    def _put(self, states: IndexedStates, rows: Sequence[Row]) -> None:
        table, columns = table_of(states), _columns(states)
        query = _KNOWN.format(table=table)
        marks = ", ".join("?" * (1 + len(columns)))
        for row in rows:
            version, key, *known = self._db.execute(query, (row.topic, row.key)).fetchone()
            if version != row.version:
                continue  # the store has a newer one
            entry = entry_of(states, row.key, row.value)
            if entry is None:
                self._db.execute(f"DELETE FROM {table} WHERE key = ?", (row.key,))
            elif key is None:
                self._db.execute(f"INSERT INTO {table} VALUES ({marks})", (row.key, *entry))
            else:
                # an index of what has not changed is not written to
                pairs = zip(columns, known, entry, strict=True)
                new = {column: value for column, was, value in pairs if was != value}
                if new:
                    sets = ", ".join(f"{column} = ?" for column in new)
                    statement = f"UPDATE {table} SET {sets} WHERE key = ?"
                    self._db.execute(statement, (*new.values(), row.key))


def entry_of(states: IndexedStates, key: bytes, value: bytes) -> tuple[object, ...] | None:
    """Its tenant, and the values of its fields; None where it is not shown."""
    state = orjson.loads(value)
    meta = state.pop(META)
    full_id = key.decode(errors="replace")
    if meta.get("deleted") or not FULL_ID.fullmatch(full_id):
        return None
    return (tenant_of(full_id), *states.values_in(state))


def _columns(states: IndexedStates) -> list[str]:
    return ["tenant", *(column_of(states, field.name) for field in states.fields)]
