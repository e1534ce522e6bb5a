"""A view's SQL -> its rows, once it is sure that they can be kept up to date.

What Spark itself refuses is told in its words; what it would take, but could not keep true, in
ours.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from shared.errors import WrongViewError
from shared.folding.snapshot import META
from shared.model import View
from shared.tables.view_rows import COLUMN, WINDOW
from stream_jobs.views import join_rules
from stream_jobs.views.row_contract import SparkColumn, why_not
from stream_jobs.views.spark_plan import (
    OF_EVENT_TIME,
    Joined,
    Shown,
    above_the_table,
    ask_spark,
    has_event_time,
    items,
    kind_of,
    makes_windows,
    never_null,
    tables_read,
    unnamed,
)

_KEY_KINDS = "string", "bigint", "int", "smallint", "tinyint", "boolean", "date", "timestamp"
_TAKEN = "Project", "Filter", "Aggregate", "SubqueryAlias", "Join"
_LIMIT = "a view has all rows: limit is a parameter of GET /views"
_DISTINCT = "each event is there once: name in GROUP BY what is to be once"
_INSTEAD = {
    "Union": "make a view of each part",
    "Sort": "rows of a view have the order of their keys: ask GET /views for what you need",
    "GlobalLimit": _LIMIT,
    "LocalLimit": _LIMIT,
    "Distinct": _DISTINCT,
    "Deduplicate": _DISTINCT,
    "Window": "OVER (…) needs all rows at once: group by a window of time",
    "Generate": "let the enrichment make several events of a payload, in place of explode",
    "Expand": "make a view of each grouping, in place of ROLLUP, CUBE or GROUPING SETS",
    "OneRowRelation": "nothing would ever change it",
    "WithCTE": "write the parts after WITH as subqueries: FROM (SELECT …)",
}
# what is no SELECT Spark would do at once
_SELECT = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with|from)\b", re.I | re.S)
_OF_NOW = re.compile(
    r"\b(current_timestamp|current_time|current_date|current_user|now|curdate|localtimestamp"
    r"|uuid)\("
)
# Spark takes such a text for a time, another one at each start
_TIME_OF_NOW = re.compile(r"'\s*(?:now|today|yesterday|tomorrow)\b[^']*'", re.I)
_OF_ORDER = re.compile(
    r"\b(first|first_value|last|last_value|any_value|mode|percentile_approx|approx_percentile"
    r"|histogram_numeric)\("
    r"|(?<!sort_array\()\b(collect_list|collect_set|array_agg|listagg|string_agg)\("
)


class Query(NamedTuple):
    rows: DataFrame  # with the columns of their key first
    key: tuple[str, ...]
    mode: str  # of Spark's output
    waits_ms: int  # for what it joins, beyond what is late


def own_session(spark: SparkSession) -> SparkSession:
    """Where names mean what they mean to one view, and where what cannot be computed is null: an
    event that is divided by 0 must not stop the view for all others."""
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own


def query_of(row: View, tables: Mapping[str, DataFrame]) -> Query:
    """WrongViewError where it cannot be kept up to date. `tables`: of the view's own session, each
    under its event type's name."""
    if not _SELECT.match(row.sql):
        raise _wrong(row, f"a view is a SELECT, not {row.sql.split()[0]}")
    if said := _TIME_OF_NOW.search(row.sql):
        raise _wrong(row, f"{said[0]} is another time each time: use time or arrived")
    try:
        for name, table in tables.items():
            table.createOrReplaceTempView(name)
        rows = table.sparkSession.sql(row.sql)
        key = _key(row, rows.schema)
        nodes = [*above_the_table(rows)]
        _refuse_what_cannot_be_kept(row, rows, nodes, key)
        groups = any(kind_of(node) == "Aggregate" for node in nodes)
        mode = "update" if groups and row.results == "update" else "append"
        joined = Joined(rows)
        if why := join_rules.why_endless(joined):
            raise _wrong(row, why)
        ask_spark(rows, mode)
    except (AnalysisException, ParseException) as error:
        raise _wrong(row, _told(error)) from None
    _refuse_other_columns(row, rows)
    others = [name for name in rows.columns if name not in key]
    return Query(rows.select(*key, *others), key, mode, joined.kept_for_ms() or 0)


def _key(row: View, schema: StructType) -> tuple[str, ...]:
    names = schema.names
    for name in names:
        if name == META:
            raise _wrong(row, f"a column is called {META}, which is where rows have their version")
        if not COLUMN.fullmatch(name):
            raise _wrong(row, f"a column is called {name}: give it a plain name, with AS")
    if len({name.lower() for name in names}) < len(names):
        raise _wrong(row, f"two columns have one name, out of {', '.join(names)}: rename with AS")
    windows = [field.name for field in schema if _is_window(field)]
    if len(windows) > 1 or (windows and windows != [WINDOW]):
        raise _wrong(
            row,
            f"its windows of time are {', '.join(windows)}: there is one, and it is called "
            f"{WINDOW} (SELECT session_window AS {WINDOW})",
        )
    if windows and OF_EVENT_TIME not in schema[WINDOW].metadata:
        raise _wrong(row, "its window is not one of the events' time: write window(time, …)")
    if WINDOW in names and not windows:
        raise _wrong(row, f"only a window of time is called {WINDOW}: rename the column with AS")
    for name in row.key:
        if name not in names:
            known = ", ".join(names)
            raise _wrong(row, f"its key names {name!r}, which the SELECT has not; it has: {known}")
        kind = schema[name].dataType.simpleString()
        if kind not in _KEY_KINDS and name not in windows:
            raise _wrong(
                row,
                f"{name} is {kind}, and a key is of text, whole numbers, true or false, dates and "
                "times",
            )
    return (*row.key, *(name for name in windows if name not in row.key))


def _is_window(field: StructField) -> bool:
    kind = field.dataType
    return (
        isinstance(kind, StructType)
        and kind.names == ["start", "end"]
        and all(isinstance(end.dataType, TimestampType) for end in kind)
    )


def _refuse_what_cannot_be_kept(
    row: View, rows: DataFrame, nodes: list[Any], key: tuple[str, ...]
) -> None:
    for node in nodes:
        its = kind_of(node)
        if its not in _TAKEN and not makes_windows(node):
            instead = _INSTEAD.get(its, f"{its} cannot be kept up to date")
            its_form = f"SELECT … FROM {' JOIN '.join(row.of)} WHERE … GROUP BY …"
            raise _wrong(row, f"{instead}; a view is {its_form}")
        if node.subqueries().size() > 0:
            raise _wrong(row, "a SELECT within an expression cannot be kept up to date")
        _refuse_what_changes(row, node)
    if sorted(tables_read(rows)) != sorted(row.of):
        raise _wrong(row, f"it reads {' and '.join(row.of)} once, and nothing else")
    if why := join_rules.why_not(nodes):
        raise _wrong(row, why)
    at = [number for number, node in enumerate(nodes) if kind_of(node) == "Aggregate"]
    if len(at) > 1:
        raise _wrong(row, "it groups twice: one GROUP BY is all that can be kept up to date")
    if at:
        if len(row.of) > 1 and row.results == "update":
            raise _wrong(
                row,
                "what is joined may still get more from the other side: let results be "
                '"final", and group by the time or a window of it',
            )
        _refuse_bad_group(row, Shown(rows, nodes[: at[0]]), key, nodes[at[0]])
    elif not all(names.intersection(key) for names in Shown(rows, nodes).of_each_table("event_id")):
        each = "each event is a row" if len(row.of) == 1 else "each pair of events is a row"
        its = "event_id" if len(row.of) == 1 else "the event_id of each of them"
        raise _wrong(row, f"without GROUP BY {each}: its key needs {its} as it is")


def _refuse_other_columns(row: View, rows: DataFrame) -> None:
    """Than those of its contract, where it has one."""
    if row.row is None:
        return
    certain = never_null(rows)
    columns = [
        SparkColumn(its.name, its.dataType.simpleString(), its.name not in certain)
        for its in rows.schema
    ]
    if said := why_not(row, columns):
        raise _wrong(row, said)


def _refuse_what_changes(row: View, node: Any) -> None:
    """From one computing to the next."""
    for expression in items(node.expressions()):
        text = expression.sql().lower()
        if now := _OF_NOW.search(text):
            raise _wrong(row, f"{now[1]}() says something else each time: use time or arrived")
        if one := _OF_ORDER.search(text):
            raise _wrong(
                row,
                f"{one[1] or one[2]}() depends on the order in which events are read, which is "
                "another one each time: max_by(value, struct(time, event_id)) is the latest, "
                "sort_array(collect_set(value)) are all",
            )
        if not expression.deterministic():
            raise _wrong(row, f"{text} is something else each time")


def _refuse_bad_group(row: View, shown: Shown, key: tuple[str, ...], group: Any) -> None:
    of_groups, constants = set[str](), set[str]()
    if sum(map(has_event_time, items(group.groupingExpressions()))) > 1:
        raise _wrong(row, "it groups by two times of events: group by one of them, or its window")
    for grouped in items(group.groupingExpressions()):
        names = {
            name
            for one in items(group.aggregateExpressions())
            if unnamed(one).semanticEquals(grouped)
            for name in shown.names(one)
        }
        if not names.intersection(key):
            what = grouped.sql()
            for name in row.of:
                what = what.replace(f"{name}.", "")
            raise _wrong(
                row,
                f"it groups by {what}, and its key does not have it, so one key would have several "
                "rows: SELECT it as it is, and name it in the key",
            )
        of_groups |= names
    for one in items(group.aggregateExpressions()):
        if unnamed(one).foldable():
            constants.update(shown.names(one))
    if row.results == "update":
        if others := [name for name in key if name not in of_groups | constants]:
            raise _wrong(
                row,
                f"{others[0]} in its key changes with each event, and the row before would stay: "
                "a key has what it groups by (for one row of all: SELECT 'all' AS scope, …)",
            )
        if any(kind_of(node) == "Filter" for node in shown.above):
            raise _wrong(
                row,
                "HAVING (or a WHERE around it) would leave a row as it was when it no longer "
                'passes: take it out and ask for it, or let results be "final"',
            )
        if "session_window" in group.groupingExpressions().toString():
            raise _wrong(row, 'a session grows together with others: results are "final"')
    elif not any(OF_EVENT_TIME in shown.rows.schema[name].metadata for name in key):
        raise _wrong(
            row,
            "results are final when a window closes, or a time is past: group by window(time, …) "
            "or the time itself, and name it in the key",
        )


def _told(error: AnalysisException | ParseException) -> str:
    """Its first lines, without the plan that comes after them."""
    lines = str(error).split("\nJVM stacktrace")[0].splitlines()
    kept: list[str] = []
    for line in lines:
        if line.startswith(("'", "+-", "==", "~")):
            break
        kept.append(line.strip())
    return " ".join(line for line in kept if line).split(" SQLSTATE")[0].rstrip(";")


def _wrong(row: View, why: str) -> WrongViewError:
    return WrongViewError(f"VIEW_WRONG: view {row.name}: {' '.join(why.split())}")
