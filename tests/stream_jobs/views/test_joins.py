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


@pytest.mark.parametrize(
    ("on", "waits_ms"),
    [
        (BEFORE, 5_000),
        ("s.time = r.time", 0),
        (
            "s.time BETWEEN r.time - INTERVAL 1 HOUR AND r.time + INTERVAL 1 DAY",
            86_400_000,
        ),
    ],
)
def test_how_long_it_waits_is_known(spark: SparkSession, on: str, waits_ms: int) -> None:
    sql = f"{BOTH_IDS} FROM reading r JOIN status_changed s ON {SAME} AND {on}"
    assert query(spark, replace(PAIRS, sql=sql)).waits_ms - waits_ms in (0, 1)


def test_windows_can_be_joined_by(spark: SparkSession) -> None:
    def side(table: str) -> str:
        return f"(SELECT entity_id, window(time, '10 seconds') AS w FROM {table})"

    sql = (
        f"SELECT r.entity_id, r.w AS window, count(*) AS n FROM {side('reading')} r "
        f"JOIN {side('status_changed')} s ON {SAME} AND s.w = r.w GROUP BY r.entity_id, r.w"
    )
    assert query(spark, replace(FINAL, sql=sql, key=("entity_id",))).waits_ms == 0


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
        (
            f"FROM reading r LEFT JOIN status_changed s ON {SAME} AND s.time <= r.arrived "
            "AND s.time >= r.time - INTERVAL 5 SECONDS",
            "no bound of time on both sides",
        ),
        (
            f"FROM reading r JOIN status_changed s ON {SAME} AND s.time = r.arrived AND {BEFORE}",
            "no time of one",
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
            replace(
                FINAL,
                sql="SELECT entity_id, t, count(*) AS n FROM (SELECT r.entity_id, s.time AS t "
                f"{JOINED}) GROUP BY entity_id, t",
                key=("entity_id", "t"),
            ),
            "group by the time of the left side",
        ),
        *(
            (
                replace(
                    FINAL,
                    sql=f"SELECT window, count(*) AS n {JOINED} GROUP BY {window}",
                    key=("window",),
                ),
                "take that of the left side",
            )
            for window in ("window(s.time, '1 minute')", "window(s.time, '1 hour', '1 minute')")
        ),
        (
            replace(
                FINAL,
                sql="SELECT x.entity_id, x.time, x.n, s.status FROM (SELECT entity_id, time, "
                "count(*) AS n FROM reading GROUP BY entity_id, time) x JOIN status_changed s "
                "ON s.entity_id = x.entity_id AND s.time BETWEEN x.time - INTERVAL 5 SECONDS "
                "AND x.time",
                key=("entity_id", "time"),
            ),
            "join first, and group what is joined",
        ),
        (
            replace(
                FINAL,
                sql="SELECT r.time, s.time AS t, count(*) AS n FROM reading r JOIN status_changed "
                f"s ON {SAME} AND {BEFORE} GROUP BY r.time, s.time",
                key=("time", "t"),
            ),
            "it groups by two times of events",
        ),
        (
            replace(
                PAIRS,
                sql="SELECT r.event_id AS reading_id, s.event_id AS status_id, s.window FROM "
                "(SELECT event_id, entity_id, window(time, '1 minute') AS w FROM reading) r "
                "LEFT JOIN (SELECT event_id, entity_id, window(time, '1 minute') AS window "
                f"FROM status_changed) s ON {SAME} AND s.window = r.w",
            ),
            "its window is one of what a LEFT JOIN may not find",
        ),
        (
            View(
                "three",
                (*PAIRS.of, "alarm_raised"),
                "SELECT r.event_id AS a, s.event_id AS b, x.event_id AS c, r.time, s.time AS t "
                f"FROM reading r JOIN status_changed s ON {SAME} AND {BEFORE} JOIN alarm_raised x "
                "ON x.entity_id = r.entity_id AND x.time BETWEEN s.time AND s.time + INTERVAL 5 "
                "SECONDS",
                ("a", "b", "c"),
            ),
            "two times of events",
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
