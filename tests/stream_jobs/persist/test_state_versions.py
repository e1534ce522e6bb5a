"""Each version of a state that came to its topic is kept once, in its life."""

import re
from collections.abc import Iterator

import orjson
import psycopg
import pytest

from clients.kafka.records import Record
from clients.postgres import store
from local_stack.machine.paths import CHECKOUT
from shared.events.envelope import Position
from stream_jobs.persist.line_server import uncovered
from stream_jobs.persist.rows import GoneRow, StateRow
from stream_jobs.persist.state_versions import Versioned, by_lives
from stream_jobs.persist.writer import EventStore

BEGAN_MS = 1_700_000_000_000


def _state(version: int, offset: int, entity_id: str = "d", *, deleted: bool = False) -> StateRow:
    state = orjson.dumps({"count": version}).decode()
    row = StateRow(_record(offset, b"{}"), "device", entity_id, version, None, state, deleted)
    return row._replace(has_history=True)


def _gone(offset: int, entity_id: str = "d") -> GoneRow:
    return GoneRow(_record(offset, None), "device", entity_id, has_history=True)


def _record(offset: int, value: bytes | None) -> Record:
    return Record(Position("state.device.v1", 0, offset), b"d", value, [], BEGAN_MS + offset)


def _parts(rows: list[Versioned]) -> list[tuple[list[int], list[int]]]:
    return [
        ([row.version for row in life.versions], [row.record.position.offset for row in life.ends])
        for life in by_lives(rows)
    ]


def test_versions_come_in_the_order_of_the_log_each_once() -> None:
    rows = [_state(3, 4), _state(1, 1), _state(1, 2), _state(2, 3), _state(2, 5)]
    assert _parts([*rows]) == [([1, 2, 3], [])]


def test_a_null_ends_a_life_of_its_entity_alone() -> None:
    rows = [_state(7, 1), _gone(2), _state(1, 3), _state(4, 4, "other"), _gone(5), _state(1, 6)]
    assert _parts([*rows]) == [([7, 4], [2]), ([1], [5]), ([1], [])]


def test_versions_that_are_kept_do_not_cover_each_other() -> None:
    waiting = [_state(1, 1), _state(2, 2), _gone(3)]
    assert uncovered(waiting) == waiting
    covered = [row._replace(has_history=False) for row in waiting]
    assert uncovered(covered) == covered[2:]


@pytest.fixture
def writer(postgres_url: str) -> Iterator[EventStore]:
    writer = EventStore(postgres_url)
    yield writer
    writer.close()


def _kept(connection: store.Connection) -> list[tuple[int, int, int, bool, int | None]]:
    """Life, version, when after the beginning, whether deleted, and when it was forgotten."""
    found = connection.execute(
        b"""SELECT life, version, (extract(epoch FROM at) * 1000)::bigint, deleted,
                   (extract(epoch FROM forgotten_at) * 1000)::bigint
            FROM headrace.state_version WHERE id = 'd' ORDER BY life, version"""
    )
    return [
        (life, version, at - BEGAN_MS, deleted, None if end is None else end - BEGAN_MS)
        for life, version, at, deleted, end in found
    ]


@pytest.mark.stack
@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_what_was_published_is_kept_also_where_it_comes_again(
    writer: EventStore, connection: psycopg.Connection, together: bool
) -> None:
    rows: list[Versioned] = [
        *(_state(1, 10), _state(4, 11), _state(4, 12), _state(5, 13, deleted=True)),
        *(_gone(14), _state(1, 15), _state(2, 16)),
    ]
    for _ in range(2):  # a batch that runs again writes nothing twice
        for part in [rows] if together else [[row] for row in rows]:
            writer.write(part)
    assert _kept(connection) == [
        *((0, 1, 10, False, None), (0, 4, 11, False, None), (0, 5, 13, True, 14)),
        *((1, 1, 15, False, None), (1, 2, 16, False, None)),
    ]


@pytest.mark.stack
def test_the_documented_statement_deletes_what_is_older_than_a_year_but_for_the_last(
    writer: EventStore, connection: psycopg.Connection
) -> None:
    day_ms = 24 * 3600 * 1000
    now = connection.execute("SELECT (extract(epoch FROM now()) * 1000)::bigint").fetchone()
    assert now is not None
    for version, age_days in enumerate((800, 500, 400, 100), 1):
        row = _state(version, version)
        at_ms = now[0] - age_days * day_ms
        writer.write([row._replace(record=row.record._replace(time_ms=at_ms))])
    text = (CHECKOUT / "docs" / "operations.md").read_text()
    (statement,) = re.findall(r"(DELETE FROM headrace\.state_version.+?);", text, re.S)
    connection.execute(statement.encode())
    assert [version for _, version, *_ in _kept(connection)] == [3, 4]


@pytest.mark.stack
def test_of_an_entity_without_history_nothing_is_kept(
    writer: EventStore, connection: psycopg.Connection
) -> None:
    writer.write([_state(1, 1)._replace(has_history=False)])
    assert _kept(connection) == []
