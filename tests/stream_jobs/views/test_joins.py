"""Joins of event tables: those that can be kept up to date, and what is said of the others."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from shared.errors import WrongViewError
from shared.model import View
from tests.stream_jobs.views.conftest import query

pytestmark = pytest.mark.stack

SAME = "s.entity_id = r.entity_id"
BEFORE = "s.time BETWEEN r.time - INTERVAL 5 SECONDS AND r.time"
BOTH_IDS = "SELECT r.event_id AS reading_id, s.event_id AS status_id, s.status"
PAIRS = View("pairs", ("reading", "status_changed"), "", ("reading_id", "status_id"))
FINAL = replace(PAIRS, results="final")


@pytest.mark.parametrize(
    "sql",
    [
        f"{BOTH_IDS} FROM reading r JOIN status_changed s ON {SAME} AND {BEFORE}",
        f"{BOTH_IDS} FROM reading r LEFT JOIN status_changed s ON {SAME} AND {BEFORE}",
        f"{BOTH_IDS} FROM reading r, status_changed s WHERE {SAME} AND {BEFORE} AND r.value > 3",
        f"{BOTH_IDS} FROM (SELECT * FROM reading WHERE value > 3) r JOIN status_changed s "
        f"ON {SAME} AND s.time > r.time AND s.time < r.time + INTERVAL 1 DAY",
        f"{BOTH_IDS} FROM reading r JOIN status_changed s ON {SAME} AND s.time = r.time",
    ],
)
def test_pairs_of_events_are_rows(spark: SparkSession, sql: str) -> None:
    its = query(spark, replace(PAIRS, sql=sql))
    assert (its.key, its.mode) == (PAIRS.key, "append")


@pytest.mark.parametrize(
    ("key", "what", "of"),
    [
        (("event_id", "time"), "r.event_id, r.time", "r.event_id, r.time"),
        (("entity_id",), "r.entity_id, window", "r.entity_id, window(r.time, '1 minute')"),
        (("window",), "window", "window(r.time, '1 minute', '10 seconds')"),
    ],
)
def test_what_is_joined_can_be_grouped_by_time(
    spark: SparkSession, key: tuple[str, ...], what: str, of: str
) -> None:
    sql = (
        f"SELECT {what}, count(s.event_id) AS statuses FROM reading r "
        f"LEFT JOIN status_changed s ON {SAME} AND {BEFORE} GROUP BY {of}"
    )
    assert query(spark, replace(FINAL, sql=sql, key=key)).mode == "append"


def test_three_tables_can_be_joined(spark: SparkSession) -> None:
    sql = (
        "SELECT r.event_id AS a, s.event_id AS b, x.event_id AS c FROM reading r "
        f"JOIN status_changed s ON {SAME} AND {BEFORE} JOIN alarm_raised x "
        "ON x.entity_id = r.entity_id AND x.time BETWEEN r.time AND r.time + INTERVAL 5 SECONDS"
    )
    row = View("three", (*PAIRS.of, "alarm_raised"), sql, ("a", "b", "c"))
    assert query(spark, row).mode == "append"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"FROM reading r JOIN status_changed s ON {SAME}", "no bound of time on both sides"),
        (
            f"FROM reading r JOIN status_changed s ON {SAME} AND s.time > r.time",
            "no bound of time on both sides",
        ),
        (
            f"FROM reading r LEFT JOIN status_changed s ON {SAME} AND s.arrived = r.arrived",
            "no bound of time on both sides",
        ),
        (f"FROM reading r JOIN status_changed s ON {BEFORE}", "no equality"),
        (
            f"FROM reading r FULL JOIN status_changed s ON {SAME} AND {BEFORE}",
            "FULL OUTER JOIN cannot be kept up to date: write JOIN or LEFT JOIN",
        ),
        ("FROM reading r CROSS JOIN status_changed s", "CROSS JOIN cannot be kept up to date"),
        (
            f"FROM reading r JOIN status_changed s ON {SAME} AND {BEFORE} "
            "JOIN status_changed t ON t.entity_id = r.entity_id",
            "it reads reading and status_changed once, and nothing else",
        ),
    ],
)
def test_other_joins_are_refused(spark: SparkSession, sql: str, said: str) -> None:
    with pytest.raises(WrongViewError, match=said):
        query(spark, replace(PAIRS, sql=f"{BOTH_IDS} {sql}"))


JOINED = f"FROM reading r LEFT JOIN status_changed s ON {SAME} AND {BEFORE}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            replace(PAIRS, sql=f"SELECT r.event_id, s.status {JOINED}", key=("event_id",)),
            "its key needs the event_id of each of them",
        ),
        (
            replace(
                PAIRS,
                sql=f"SELECT r.entity_id, count(*) AS n {JOINED} GROUP BY r.entity_id",
                key=("entity_id",),
            ),
            'let results be "final"',
        ),
        (
            replace(
                FINAL,
                sql=f"SELECT r.entity_id, count(*) AS n {JOINED} GROUP BY r.entity_id",
                key=("entity_id",),
            ),
            "when a window closes, or a time is past",
        ),
        (
            replace(
                FINAL,
                sql=f"SELECT s.time, count(*) AS n {JOINED} GROUP BY s.time",
                key=("time",),
            ),
            "group by the time of the left side",
        ),
        (
            replace(PAIRS, sql="SELECT event_id FROM reading", key=("event_id",)),
            "it reads reading and status_changed once",
        ),
    ],
)
def test_rows_that_could_not_stay_true_are_refused(
    spark: SparkSession, row: View, said: str
) -> None:
    with pytest.raises(WrongViewError, match=said):
        query(spark, row)
