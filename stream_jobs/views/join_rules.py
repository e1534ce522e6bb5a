"""Which joins of event tables can be kept up to date, and why the others cannot.

Each side keeps its events for as long as one of the other side may still come that they belong to,
so both need a bound of time.
"""

from typing import Any

from shared.tables.view_rows import WINDOW
from stream_jobs.views.spark_plan import (
    Joined,
    has_event_time,
    is_join,
    items,
    kind_of,
    shows,
    times_made_of,
)

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
    if shows(nodes[0], WINDOW, times_made_of(nodes, times)):
        return (
            "its window is one of what a LEFT JOIN may not find, so it may be null: take that of "
            "the left side"
        )
    groups = [number for number, node in enumerate(nodes) if kind_of(node) == "Aggregate"]
    if any(is_join(node) for number in groups for node in nodes[:number]):
        return (
            "it joins what is grouped, so one key could have several rows: join first, and group "
            "what is joined"
        )
    if any(
        grouped.semanticEquals(time)
        for number in groups
        for grouped in items(nodes[number].groupingExpressions())
        for time in times_made_of(nodes[number + 1 :], times)
    ):
        return (
            "it groups by the time of what a LEFT JOIN may not find, so what has found nothing "
            "would never be a row: group by the time of the left side"
        )
    return None


def why_endless(joined: Joined) -> str | None:
    if joined.lacks_equality():
        return "its JOIN has no equality, so each is compared to all: ON a.entity_id = b.entity_id"
    if joined.equals_other_times():
        return (
            "its JOIN equals the time of an event with what is no time of one, so one side would "
            "be forgotten before the other comes: bound both times instead"
        )
    if joined.has_two_times():
        return (
            "one side of its JOIN has two times of events, as a table that is joined already, or "
            "a window beside its time: leave one of them out, or join by that one alone"
        )
    if joined.kept_for_ms() is None:
        return (
            "its JOIN has no bound of time on both sides, so it would keep all events for ever: "
            "AND b.time BETWEEN a.time - INTERVAL 1 HOUR AND a.time"
        )
    return None


def _type(join: Any) -> str:
    return str(join.joinType().sql())
