"""Rows of views: which records are some, and what becomes of them in a real PostgreSQL."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from typing_extensions import TypedDict

from clients.kafka.records import Record
from clients.postgres import schema, store
from clients.postgres.outbox import Outbox
from shared.errors import StoreAwayError
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.model import View
from shared.tables.column_types import Date, Time, Window
from shared.tables.view_tables import table_of
from stream_jobs.persist.line_server import LineServer
from stream_jobs.persist.rows import DeadLetter, Row, RowMaker
from stream_jobs.persist.table_writer import Written
from stream_jobs.persist.view_rows import ViewRow
from stream_jobs.persist.waiting_rows import RowRules
from stream_jobs.persist.writer import EventStore


class Area(TypedDict):
    area: str | None
    window: Window
    n: int
    mean: float | None
    is_hot: bool | None
    day: Date | None
    first: Time | None
    models: list[str] | None


AREAS = View("areas", ("reading",), "SELECT …", ("area",), row=Area)
VIEWS_FLOW = replace(FLOW, views=(AREAS,))
MAKER = RowMaker.of(VIEWS_FLOW)
RULES = RowRules.of(VIEWS_FLOW, 60.0, 1_000, 1_000)
WINDOW = {"start": "2026-11-26T08:00:00.000000Z", "end": "2026-11-26T08:05:00.000000Z"}


def record(version: Any, area: str | None = "north", offset: int = 0, **more: Any) -> Record:
    key = {"area": area, "window": WINDOW}
    row = {
        **key,
        **dict.fromkeys(("mean", "is_hot", "day", "first", "models")),
        "n": 1,
        **more,
        "_meta": {"version": version},
    }
    at = Position("view.areas.v1", 0, offset)
    return Record(at, orjson.dumps(key), orjson.dumps(row), [])


def made(*args: Any, **more: Any) -> Row:
    return MAKER.make(record(*args, **more))


def test_a_record_of_a_view_is_a_row_with_its_version() -> None:
    row = made(7, n=3)
    assert isinstance(row, ViewRow)
    assert (row.version, row.values) == (7, ("north", *WINDOW.values(), 3, *[None] * 5))


@pytest.mark.parametrize(
    ("changed", "reason", "said"),
    [
        ({"key": None}, "no_key", "this one has none"),
        ({"key": b"\xff"}, "no_view_row", "utf-8"),
        ({"key": b"north"}, "no_view_row", "line 1 column 1"),
        ({"key": b'{"area":"north"}'}, "no_view_row", "the key has not what the row has"),
        ({"key": b'{"area":"%s"}' % (b"x" * 2_000)}, "id_too_long", "an index takes 2000"),
        ({"value": None}, "no_value", "the value is null"),
        ({"value": b"{"}, "no_json", ""),
        ({"value": b"[]"}, "no_view_row", "no _meta.version"),
        ({"value": record("7").value}, "no_view_row", "no time in epoch milliseconds"),
        ({"value": record(-1).value}, "no_view_row", "no time in epoch milliseconds"),
        ({"value": record(1, n="3").value}, "no_view_row", "n is no whole number"),
        ({"value": record(1, mean="a\0").value}, "nul_in_text", "no row can"),
    ],
)
def test_what_is_none_is_parked_with_its_reason(
    changed: dict[str, Any], reason: str, said: str
) -> None:
    letter = MAKER.make(record(1)._replace(**changed))
    assert isinstance(letter, DeadLetter)
    assert letter.reason == reason
    assert said in letter.detail


@pytest.fixture
def writer(postgres_url: str) -> Iterator[EventStore]:
    schema.migrate(postgres_url, [table_of(AREAS)])
    writer = EventStore(postgres_url, rules=RULES)
    yield writer
    writer.close()


def stored(connection: store.Connection) -> list[tuple[Any, ...]]:
    asked = "SELECT area, n, _version FROM headrace.view_areas ORDER BY area NULLS FIRST"
    return connection.execute(asked).fetchall()


@pytest.mark.stack
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one by one"])
def test_the_highest_version_of_each_key_stands_in_whatever_order_they_come(
    writer: EventStore, connection: store.Connection, together: bool
) -> None:
    dice = random.Random(5)
    rows = [made(v, area, n=v * 10) for area in (None, "north", "south") for v in range(1, 20)]
    spaced = rows[-1].record._replace(key=rows[-1].record.key.replace(b",", b", "))
    # and the same versions again
    rows += [MAKER.make(spaced), *rows[:20], *(made(v, "north", n=-1) for v in (19, 18, 3))]
    repeats = rows[57:]
    for _ in range(3):
        dice.shuffle(repeats)
        batch = [*rows[:57], *repeats]
        written = [writer.write(batch)] if together else [writer.write([one]) for one in batch]
        assert stored(connection) == [(None, 190, 19), ("north", 190, 19), ("south", 190, 19)]
    assert sum(written, Written()).of_views == 0


@pytest.mark.stack
def test_every_type_comes_back_as_it_was(writer: EventStore, connection: store.Connection) -> None:
    writer.write(
        [
            made(
                1,
                n=(1 << 63) - 1,
                mean=1.5,
                is_hot=True,
                day="2026-11-26",
                first="2026-11-26T08:00:00.000001Z",
                models=["ä", "b"],
            ),
            made(1, None, mean="-Infinity", n=0),
        ]
    )
    found = connection.execute(
        """SELECT area, window_end - window_start = interval '5 min', n, mean, is_hot, day::text,
                  headrace.rfc3339(first), extract(microseconds FROM first)::bigint, models
           FROM headrace.view_areas ORDER BY area NULLS FIRST"""
    ).fetchall()
    assert found == [
        (None, True, 0, float("-inf"), None, None, None, None, None),
        ("north", True, (1 << 63) - 1, 1.5, True, "2026-11-26", "2026-11-26T08:00:00.000Z", 1,
         ["ä", "b"]),
    ]  # fmt: skip


@pytest.mark.stack
def test_what_the_store_refuses_is_parked_and_the_others_stay(
    writer: EventStore, connection: store.Connection
) -> None:
    rows = [made(1, f"area-{n}", offset=n) for n in range(50)]
    rows[7] = made(1, "area-07", offset=7, day="2026-02-30")
    assert writer.write(rows) == Written(of_views=49, parked=1)
    assert writer.write(rows) == Written()
    (letter,) = Outbox(connection).pending(10)
    assert (letter.topic, letter.value) == ("dlq.persist.v1", rows[7].record.value)


@pytest.mark.stack
def test_a_row_that_waits_holds_up_no_later_one_and_does_not_overwrite_it(
    writer: EventStore, connection: store.Connection
) -> None:
    connection.execute("CREATE TABLE site (area text PRIMARY KEY)")
    connection.execute(
        "ALTER TABLE headrace.view_areas ADD FOREIGN KEY (area) REFERENCES site (area)"
    )
    assert writer.write([made(5, "far", offset=5, n=5)]) == Written(waiting=1)
    connection.execute("INSERT INTO site VALUES ('far')")
    assert writer.write([made(4, "far", offset=4), made(6, "far", offset=6, n=6)]).of_views == 1
    connection.execute("UPDATE headrace.waiting_row SET due_at = now()")
    LineServer(connection, MAKER, RULES, 60.0).serve()
    assert stored(connection) == [("far", 6, 6)]
    assert connection.execute("SELECT count(*) FROM headrace.waiting_row").fetchone() == (0,)


@pytest.mark.stack
def test_without_its_table_the_rows_wait_for_migrate(postgres_url: str) -> None:
    writer = EventStore(postgres_url, rules=RULES)
    with pytest.raises(StoreAwayError, match="run migrate"):
        writer.write([made(1)])
    schema.migrate(postgres_url, [table_of(AREAS)])
    assert writer.write([made(1)]) == Written(of_views=1)
    writer.close()
