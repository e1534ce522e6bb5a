"""Views that cannot be kept up to date are refused at once, with what to write instead."""

from dataclasses import replace

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession
from typing_extensions import TypedDict

from shared.errors import WrongViewError
from shared.flow import FLOW
from shared.model import EventType, View
from shared.tables.column_types import Date, Time, Window
from tests.stream_jobs.views.conftest import query
from tests.stream_jobs.views_flow import JOINS, STORED_VIEWS, VIEWS

pytestmark = pytest.mark.stack

ROW = View("hot", ("reading",), "", ("area",))
WINDOW = "window(time, '1 minute')"


@pytest.mark.parametrize("row", (*VIEWS, *JOINS), ids=lambda row: row.name)
def test_what_can_be_kept_up_to_date_is_taken(spark: SparkSession, row: View) -> None:
    its = query(spark, row)
    assert its.rows.columns[: len(its.key)] == [*its.key]
    assert its.mode == ("update" if row.name in ("by_area", "totals") else "append")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT upper(area) AS area, {WINDOW} AS window, count(*) AS n FROM reading "
        f"GROUP BY upper(area), {WINDOW}",
        f"SELECT area, window, n / 2 AS half FROM (SELECT area, {WINDOW} AS window, count(*) AS n "
        f"FROM reading WHERE value > 3 GROUP BY area, {WINDOW})",
        f"SELECT place AS area, window, n FROM (SELECT area AS place, window, count(*) AS n "
        f"FROM reading GROUP BY area, {WINDOW})",
        "SELECT area, sort_array(collect_set(model)) AS models FROM reading GROUP BY area",
        "SELECT area, get_json_object(rest, '$.x') AS area2, count(*) AS n FROM reading "
        "GROUP BY 1, 2",
    ],
)
def test_what_can_be_written_in_other_ways_is_taken_too(spark: SparkSession, sql: str) -> None:
    key = ("area", "area2") if "area2" in sql else ("area",)
    assert query(spark, replace(ROW, sql=sql, key=key)).mode == "update"


GROUPED = f"FROM reading GROUP BY area, {WINDOW}"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC area FROM reading", "a view is a SELECT, not SELEC"),
        ("SELECT area, count(* FROM reading", "Syntax error"),
        (
            f"SELECT aera, window, count(*) AS n {GROUPED}",
            "`aera` cannot be resolved. Did you mean",
        ),
        ("SELECT area FROM readings", "`readings` cannot be found"),
        (f"SELECT area, window, summe(value) {GROUPED}", "`summe`"),
        (f"SELECT area, window, sum(model, 1) {GROUPED}", "`sum` requires"),
        ("SELECT area, value + time AS x FROM reading", "DATATYPE_MISMATCH"),
        (f"SELECT area, window, model, count(*) AS n {GROUPED}", "MISSING_AGGREGATION"),
        ("SELECT area, avg(sum(value)) AS x FROM reading GROUP BY area", "aggregate function"),
        ("DROP TABLE reading", "a view is a SELECT, not DROP"),
        ("SELECT 1 AS area", "nothing would ever change it"),
        ("SELECT area, value FROM reading", "its key needs event_id"),
        ("SELECT area, count(*) FROM reading GROUP BY area", "a column is called count(1)"),
        ("SELECT area, avg(value * 1.8) FROM reading GROUP BY area", "give it a plain name"),
        ("SELECT area, count(DISTINCT model) AS n FROM reading GROUP BY area", "approx_count_dist"),
        ("SELECT upper(area) AS area, count(*) AS n FROM reading GROUP BY area", "groups by area"),
        (
            "SELECT upper(area) AS area, n FROM (SELECT area, count(*) AS n FROM reading "
            "GROUP BY area)",
            "groups by area",
        ),
        ("SELECT max(area) AS area, count(*) AS n FROM reading", "area in its key changes"),
        (
            "SELECT area, window, count(*) AS n FROM reading "
            "GROUP BY area, window(arrived, '1 minute')",
            "not one of the events' time",
        ),
        (
            "SELECT area, model AS window, count(*) AS n FROM reading GROUP BY 1, 2",
            "window of time",
        ),
        (f"SELECT area, count(*) AS n {GROUPED}", "groups by window"),
        (
            f"SELECT area, time, window, count(*) AS n FROM reading GROUP BY area, time, {WINDOW}",
            "two times of events",
        ),
        ("SELECT area, max(value) AS x FROM reading WHERE time > 'today' GROUP BY 1", "'today'"),
        (
            "SELECT area, x FROM (SELECT area, max(value) AS x FROM reading GROUP BY area) "
            "WHERE x > 3",
            "HAVING",
        ),
        (
            "SELECT model, count(*) AS n FROM reading GROUP BY model",
            "names 'area', which the SELECT",
        ),
        ("SELECT count(*) AS area, model FROM reading GROUP BY model", "it groups by model"),
        ("SELECT area, count(*) AS n FROM reading GROUP BY area, model", "it groups by model"),
        (
            "SELECT area, area, count(*) AS n FROM reading GROUP BY area",
            "two columns have one name",
        ),
        ("SELECT area, 1 AS _meta, count(*) AS n FROM reading GROUP BY area", "is called _meta"),
        ("SELECT value AS area, count(*) AS n FROM reading GROUP BY value", "area is double"),
        (
            f"SELECT area, {WINDOW} AS minute, count(*) AS n FROM reading GROUP BY area, {WINDOW}",
            "it is called window",
        ),
        (f"SELECT area, window, count(*) AS n {GROUPED} HAVING count(*) > 3", "HAVING"),
        (f"SELECT area, window, count(*) AS n {GROUPED} ORDER BY area", "order of their keys"),
        (f"SELECT area, window, count(*) AS n {GROUPED} LIMIT 3", "limit is a parameter"),
        ("SELECT DISTINCT area FROM reading", "name in GROUP BY what is to be once"),
        ("SELECT area, rank() OVER (ORDER BY value) AS r FROM reading", "group by a window"),
        ("SELECT area, explode(array(1, 2)) AS x FROM reading", "several events"),
        (
            "SELECT a.area, b.value FROM reading a JOIN reading b USING (entity_id)",
            "it reads reading once",
        ),
        ("SELECT area FROM reading UNION ALL SELECT area FROM reading", "a view of each part"),
        (
            "SELECT event_id, area FROM reading WHERE value > (SELECT max(value) FROM reading)",
            "Streaming query is not allowed in subquery",
        ),
        ("WITH r AS (SELECT area FROM reading) SELECT area FROM r", "as subqueries"),
        ("SELECT area, count(*) AS n FROM reading GROUP BY ROLLUP (area)", "each grouping"),
        ("SELECT area, first(value) AS x FROM reading GROUP BY area", "max_by(value, struct("),
        ("SELECT area, collect_set(model) AS m FROM reading GROUP BY area", "sort_array("),
        (f"SELECT area, window, rand() AS r, count(*) AS n {GROUPED}", "something else each time"),
        ("SELECT area, max(time - now()) AS x FROM reading GROUP BY area", "use time or arrived"),
        (
            "SELECT area, session_window AS window, count(*) AS n FROM reading "
            "GROUP BY area, session_window(time, '5 minutes')",
            'results are "final"',
        ),
        (
            "SELECT area, n, count(*) AS m FROM (SELECT area, model, count(*) AS n FROM reading "
            "GROUP BY area, model) GROUP BY area, n",
            "it groups twice",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write_instead(
    spark: SparkSession, sql: str, said: str
) -> None:
    with pytest.raises(WrongViewError) as error:
        query(spark, replace(ROW, sql=sql))
    told = str(error.value)
    assert said in told
    assert told.startswith("VIEW_WRONG: view hot: ")
    assert not any(sign in told for sign in ("\n", "#", "+-", "JVM", "SQLSTATE"))


def test_results_that_are_final_need_a_window(spark: SparkSession) -> None:
    sql = "SELECT area, count(*) AS n FROM reading GROUP BY area"
    with pytest.raises(WrongViewError, match="when a window closes"):
        query(spark, replace(ROW, sql=sql, results="final"))


@pytest.mark.parametrize(
    ("key", "sql"),
    [
        (("window",), f"SELECT window, count(*) AS n FROM reading GROUP BY {WINDOW}"),
        (("window", "area"), f"SELECT area, window, count(*) AS n {GROUPED}"),
        (("scope",), "SELECT 'all' AS scope, count(*) AS n FROM reading"),
        (("day",), "SELECT date(time) AS day, count(*) AS n FROM reading GROUP BY date(time)"),
        (("is_hot",), "SELECT value > 9 AS is_hot, count(*) AS n FROM reading GROUP BY ALL"),
        (("b",), "SELECT area AS a, area AS b, count(*) AS n FROM reading GROUP BY area"),
    ],
)
def test_keys_may_be_of_many_kinds(spark: SparkSession, key: tuple[str, ...], sql: str) -> None:
    its = query(spark, replace(ROW, sql=f"-- by {key}\n{sql}", key=key))
    assert (its.key, its.mode) == (key, "update")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT entity_id AS event_id, value FROM reading",
        "SELECT event_id, value FROM (SELECT entity_id AS event_id, value FROM reading)",
        "SELECT upper(event_id) AS event_id FROM reading",
    ],
)
def test_without_groups_the_key_is_the_event_s_own_id(spark: SparkSession, sql: str) -> None:
    with pytest.raises(WrongViewError, match="needs event_id as it is"):
        query(spark, replace(ROW, sql=sql, key=("event_id",)))


class Counted(BaseModel):
    name: str
    number: int
    maybe: int | None = None
    share: float
    is_on: bool
    parts: list[int]
    either: int | str


def test_columns_are_of_the_types_that_the_contract_has(spark: SparkSession) -> None:
    flow = replace(FLOW, event_types=(*FLOW.event_types, EventType("counted", Counted)))
    row = View("all_of_it", ("counted",), "SELECT * FROM counted", ("event_id",))
    kinds = {
        field.name: field.dataType.simpleString() for field in query(spark, row, flow).rows.schema
    }
    assert kinds == {
        **dict.fromkeys(("event_id", "entity_id", "tenant", "name", "parts", "either"), "string"),
        **dict.fromkeys(("time", "arrived"), "timestamp"),
        **dict.fromkeys(("number", "maybe"), "bigint"),
        "share": "double",
        "is_on": "boolean",
    }


def test_a_field_may_have_any_name(spark: SparkSession) -> None:
    odd = TypedDict("odd", {"temp.c": float, "a`b": str, "key": str, "data_key": int})  # type: ignore[misc]
    flow = replace(FLOW, event_types=(*FLOW.event_types, EventType("odd", odd)))
    sql = "SELECT event_id, `temp.c` AS c, `a``b` AS b, key, data_key FROM odd"
    its = query(spark, View("all_of_it", ("odd",), sql, ("event_id",)), flow).rows.schema
    kinds = [field.dataType.simpleString() for field in its]
    assert kinds == ["string", "double", "string", "string", "bigint"]


def test_several_rows_of_an_event_are_refused(spark: SparkSession) -> None:
    sql = "SELECT event_id, its, n FROM reading UNPIVOT (n FOR its IN (value))"
    with pytest.raises(WrongViewError, match="VIEW_WRONG"):
        query(spark, replace(ROW, sql=sql, key=("event_id",)))


@pytest.mark.parametrize("row", STORED_VIEWS, ids=lambda row: row.name)
def test_a_query_that_keeps_its_contract_is_taken(spark: SparkSession, row: View) -> None:
    assert query(spark, row).key


class NeverNull(TypedDict):
    area: str
    window: Window
    n: int
    mean: float
    latest: Time
    day: Date | None
    models: list[str]


_NEVER_NULL = (
    "SELECT area, window, count(*) AS n, coalesce(avg(value), 0) AS mean, "
    "coalesce(max(arrived), timestamp_millis(0)) AS latest, date(max(time)) AS day, "
    "sort_array(collect_set(model)) AS models FROM reading WHERE area IS NOT NULL "
    f"GROUP BY area, {WINDOW}"
)


def test_what_a_query_rules_out_need_not_be_null_in_the_contract(spark: SparkSession) -> None:
    row = replace(ROW, sql=_NEVER_NULL, row=NeverNull)
    assert query(spark, row).key == ("area", "window")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (_NEVER_NULL.replace("WHERE area IS NOT NULL", ""), "write `area: str | None` there"),
        (_NEVER_NULL.replace("count(*)", "avg(value)"), "write `n: float | None` in NeverNull"),
        (_NEVER_NULL.replace("count(*) AS n, ", ""), "NeverNull has n, and the SELECT has not"),
        (
            _NEVER_NULL.replace("count(*)", "count(*) AS more, count(*)"),
            "NeverNull has no more: write `more: int` there",
        ),
    ],
)
def test_other_columns_than_those_of_the_contract_are_refused(
    spark: SparkSession, sql: str, said: str
) -> None:
    with pytest.raises(WrongViewError, match="VIEW_WRONG: view hot: ") as error:
        query(spark, replace(ROW, sql=sql, row=NeverNull))
    assert said in str(error.value)
