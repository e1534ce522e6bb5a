"""Which joins of event tables can be kept up to date, and why the others cannot.

Each side keeps its events for as long as one of the other side may still come that they belong to,
so both need a bound of time.
"""

from typing import Any

from pyspark.sql import DataFrame

from stream_jobs.views.spark_plan import Joined, has_event_time, is_join, items, kind_of

_TAKEN = {"INNER", "LEFT OUTER"}


def why_not(nodes: list[Any]) -> str | None:
    """`nodes`: above the event tables."""
    joins = [node for node in nodes if is_join(node)]
    if others := sorted({_type(node) for node in joins} - _TAKEN):
        return f"{others[0]} JOIN cannot be kept up to date: write JOIN or LEFT JOIN"
    times = [
        one
        for node in joins
        if _type(node) == "LEFT OUTER"
        for one in items(node.right().output())
        if has_event_time(one)
    ]
    groups = [node for node in nodes if kind_of(node) == "Aggregate"]
    if any(
        grouped.semanticEquals(time)
        for group in groups
        for grouped in items(group.groupingExpressions())
        for time in times
    ):
        return (
            "it groups by the time of what a LEFT JOIN may not find, so what has found nothing "
            "would never be a row: group by the time of the left side"
        )
    return None


def why_endless(rows: DataFrame) -> str | None:
    joined = Joined(rows)
    if joined.lacks_equality():
        return "its JOIN has no equality, so each is compared to all: ON a.entity_id = b.entity_id"
    if joined.lacks_bound():
        return (
            "its JOIN has no bound of time on both sides, so it would keep all events for ever: "
            "AND b.time BETWEEN a.time - INTERVAL 1 HOUR AND a.time"
        )
    return None


def _type(join: Any) -> str:
    return str(join.joinType().sql())
