"""Tables of views' rows on a real PostgreSQL: made, changed, or refused."""

from dataclasses import replace
from typing import Any

import psycopg
import pytest
from typing_extensions import TypedDict

from clients.postgres import schema
from clients.postgres.grants import DESK, GATEWAY, JOBS, READER
from clients.postgres.store import Connection
from local_stack.run.stack import Stack
from shared.errors import WrongViewError
from shared.model import View
from shared.tables.column_types import Time, Window
from shared.tables.view_tables import table_of
from tests.servers import in_database_of

pytestmark = pytest.mark.stack


class Row(TypedDict):
    area: str
    window: Window
    n: int
    mean: float | None


class WithMore(TypedDict):
    area: str
    window: Window
    n: int | None
    highest: float
    first: Time | None


class OtherType(TypedDict):
    area: str
    window: Window
    n: float
    mean: float | None


class NullInKey(TypedDict):
    area: str | None
    window: Window
    n: int
    mean: float | None


AREAS = View("areas", ("reading",), "SELECT …", ("area",), row=Row)
_ROW = """INSERT INTO headrace.view_areas (area, window_start, window_end, n, _version)
          VALUES (%s, now(), now(), 1, 1)"""


def make(url: str, *rows: Any) -> None:
    schema.migrate(url, [table_of(replace(AREAS, row=row)) for row in rows])


def columns(connection: Connection, table: str = "view_areas") -> dict[str, tuple[str, str]]:
    found = connection.execute(
        """SELECT column_name, data_type, is_nullable FROM information_schema.columns
           WHERE table_schema = 'headrace' AND table_name = %s ORDER BY ordinal_position""",
        [table],
    )
    return {name: (kind, null) for name, kind, null in found}


def indexes(connection: Connection) -> list[str]:
    found = connection.execute(
        """SELECT indexdef FROM pg_indexes
           WHERE schemaname = 'headrace' AND tablename = 'view_areas' ORDER BY indexname"""
    )
    return [definition.partition(" USING ")[2] for (definition,) in found]


def test_a_table_has_the_columns_of_the_contract_and_indexes_of_its_key(
    postgres_url: str, connection: Connection
) -> None:
    for _ in range(2):
        make(postgres_url, Row)
    assert columns(connection) == {
        "area": ("text", "NO"),
        "window_start": ("timestamp with time zone", "NO"),
        "window_end": ("timestamp with time zone", "NO"),
        "n": ("bigint", "NO"),
        "mean": ("double precision", "YES"),
        "_version": ("bigint", "NO"),
    }
    assert indexes(connection) == [
        "btree (area, window_start, window_end)",
        "btree (window_start)",
    ]


def test_a_column_that_is_new_is_added_to_the_rows_that_are_there(
    postgres_url: str, connection: Connection
) -> None:
    make(postgres_url, Row)
    connection.execute(_ROW, ["north"])
    for _ in range(2):
        make(postgres_url, WithMore)
    its = columns(connection)
    assert its["highest"] == ("double precision", "YES")  # the row that is there has none
    assert its["first"] == ("timestamp with time zone", "YES")
    assert (its["n"], its["mean"]) == (("bigint", "YES"), ("double precision", "YES"))
    assert connection.execute("SELECT area, n FROM headrace.view_areas").fetchall() == [
        ("north", 1)
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"row": OtherType}, "n is bigint, and double precision by its contract now"),
        ({"row": NullInKey}, "the key may be null"),
        ({"key": ("area", "n")}, "the key is area, window_start, window_end, and area, n, window"),
    ],
)
def test_rows_of_another_shape_are_kept_and_the_change_refused(
    postgres_url: str, connection: Connection, changed: dict[str, Any], said: str
) -> None:
    make(postgres_url, Row)
    other = table_of(replace(AREAS, **changed))
    schema.migrate(postgres_url, [other])  # there was no row: the table is made anew
    make(postgres_url, Row)
    connection.execute(_ROW, ["north"])
    with pytest.raises(WrongViewError, match=said) as error:
        schema.migrate(postgres_url, [other])
    assert "give view areas version=2" in str(error.value)
    assert columns(connection)["n"] == ("bigint", "NO")
    next_one = table_of(replace(AREAS, version=2, **changed))
    schema.migrate(postgres_url, [next_one])
    assert "n" in columns(connection, "view_areas_v2")


def test_a_table_of_one_s_own_is_not_touched(postgres_url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE headrace.view_areas (area text PRIMARY KEY)")
    with pytest.raises(WrongViewError, match="is no table of a view: give it another name"):
        make(postgres_url, Row)
    assert columns(connection) == {"area": ("text", "NO")}


def test_a_null_in_the_key_is_one_value_like_another(
    postgres_url: str, connection: Connection
) -> None:
    make(postgres_url, NullInKey)
    with connection.transaction():
        connection.execute(_ROW, [None])
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute(_ROW, [None])


def test_the_jobs_and_the_desk_write_it_readers_read_it(parts: Stack, postgres_url: str) -> None:
    make(postgres_url, Row)
    with psycopg.connect(postgres_url) as connection:
        for role, may in ((JOBS, "SIU"), (DESK, "SIU"), (READER, "S"), (GATEWAY, "")):
            for verb in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                asked = "SELECT has_table_privilege(%s, 'headrace.view_areas', %s)"
                found = connection.execute(asked, (role, verb)).fetchone()
                assert found == (verb[0] in may,), (role, verb)
    with psycopg.connect(in_database_of(postgres_url, parts.postgres_url_of(READER))) as reader:
        assert reader.execute("SELECT count(*) FROM headrace.view_areas").fetchone() == (0,)
