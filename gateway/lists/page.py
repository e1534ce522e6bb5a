"""A page of states out of this node's file. What a request may look at is bounded: where few states
are in the span of one condition, these are sorted; else the index of the order is gone along, state
by state, and who seeks longer goes on with the next request."""

import sqlite3
import time
from typing import Any, NamedTuple

import orjson

from gateway.lists.list_request import Asked, Place
from gateway.lists.queries import Queries, Query
from gateway.lists.spans import Spans, spans_of
from gateway.state import answer_fields
from gateway.state_view.state_index import declared, entry_of, table_of
from shared.folding.snapshot import META
from shared.tables.indexed_fields import ID

GATHERED_MAX = 5_000  # states in the span of one condition
_LOOKED_AT_MAX = 5_000
_AT_ONCE = 500
_BYTES_MAX = 8 * 1024 * 1024  # of the states of a page
_LOOKS_FOR_S = 0.1  # on a disk that is slow
_RECORD = """
SELECT r.key, r.value, r.version, r.timestamp_ms, r.partition, r.offset, r.checksum, l.*
FROM record r LEFT JOIN {table} l ON l.key = r.key WHERE r.topic = ? AND r.key = ?
"""
_OF_INDEX = "SELECT declared, built_to IS NULL FROM state_index WHERE topic = ?"


class Keys(NamedTuple):
    """The keys of the states of a page."""

    found: list[Place]
    after: Place | None  # there is more behind it


class Stored(NamedTuple):
    rows: list[tuple[Any, ...]]  # as they stand in the file, with their checksums
    is_as_indexed: bool
    after: Place | None = None

    def told(self) -> list[dict[str, Any]]:
        """As GET /state tells each."""
        return [_told(key, value, timestamp_ms) for key, value, _, timestamp_ms, *_ in self.rows]


def _told(key: bytes, value: bytes, timestamp_ms: int) -> dict[str, Any]:
    state = orjson.loads(value)
    meta = state.pop(META)
    return {
        "id": key.decode().rpartition("/")[2],
        **answer_fields.of_version(meta, timestamp_ms),
        **answer_fields.of_clocks(meta),
        "state": state,
    }


def is_indexed(db: sqlite3.Connection, asked: Asked) -> bool:
    """All states, by these fields. Until then the writer is at it."""
    row = db.execute(_OF_INDEX, (asked.states.topic,)).fetchone()
    return row is not None and row[0] == declared(asked.states) and bool(row[1])


def keys_of(db: sqlite3.Connection, asked: Asked) -> Keys:
    spans = spans_of(asked.conditions)
    if spans.is_empty:
        return Keys([], None)
    queries = Queries(asked, spans)
    few = _few(db, asked, spans, queries)
    if few is not None:
        return _gathered(db, queries.gathered(few, asked.after), asked)
    return _in_order(db, queries, asked, _of_one_value(asked, spans))


def stored(db: sqlite3.Connection, asked: Asked, keys: Keys) -> Stored:
    """The stored states of a page. Of large ones it has fewer than were found: the next page goes
    on behind them."""
    query = _RECORD.format(table=table_of(asked.states))
    rows, is_as_indexed, left_bytes = [], True, _BYTES_MAX
    for place in keys.found:
        row = db.execute(query, (asked.states.topic, place.key)).fetchone()
        if row is None:
            return Stored([], False)
        rows.append(row[:7])
        is_as_indexed &= row[8:] == entry_of(asked.states, place.key, row[1])
        left_bytes -= len(row[1])
        if left_bytes <= 0 and place is not keys.found[-1]:
            return Stored(rows, is_as_indexed, place)
    return Stored(rows, is_as_indexed, keys.after)


def _few(db: sqlite3.Connection, asked: Asked, spans: Spans, queries: Queries) -> str | None:
    """A field in whose span are few states; none where the order's own index is the better way."""
    narrow = [field for field, span in spans.by_field.items() if span.is_narrow]
    if not spans.unlike and not spans.by_field.keys() - {asked.sort}:
        return None  # each state that is looked at is one of the page
    best, least = None, GATHERED_MAX + 1
    for field in narrow:
        query = queries.count(field, least)
        count = db.execute(*query).fetchone()[0]
        if count < least:
            best, least = field, count
    return best


def _of_one_value(asked: Asked, spans: Spans) -> str | None:
    if asked.sort != ID:
        return None
    its = (field for field, one in spans.by_field.items() if field != ID and one.is_one_value)
    return next(its, None)


def _gathered(db: sqlite3.Connection, query: Query, asked: Asked) -> Keys:
    rows = db.execute(query.sql, (*query.values, asked.limit + 1)).fetchall()
    places = [Place(value, key) for value, key, _ in rows[: asked.limit]]
    return Keys(places, places[-1] if len(rows) > asked.limit else None)


def _in_order(db: sqlite3.Connection, queries: Queries, asked: Asked, among: str | None) -> Keys:
    found: list[Place] = []
    place, looked_at, until_s = asked.after, 0, time.monotonic() + _LOOKS_FOR_S
    for part in queries.parts(place, among):
        while True:
            query = part(place)
            rows = db.execute(query.sql, (*query.values, _AT_ONCE)).fetchall()
            for value, key, is_asked_for in rows:
                if is_asked_for:
                    # there is another one, so there is another page
                    if len(found) == asked.limit:
                        return Keys(found, place)
                    found.append(Place(value, key))
                place = Place(value, key)
            if len(rows) < _AT_ONCE:
                break
            looked_at += len(rows)
            if looked_at >= _LOOKED_AT_MAX or time.monotonic() > until_s:
                return Keys(found, place)
    return Keys(found, None)
