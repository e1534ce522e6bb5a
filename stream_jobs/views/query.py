"""A view's SQL -> its rows, once it is sure that they can be kept up to date.

What Spark itself refuses is told in its words; what it would take, but could not keep true, in
ours.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from shared.errors import WrongViewError
from shared.folding.snapshot import META
from shared.model import View

WINDOW = "window"
_KEY_KINDS = "string", "bigint", "int", "smallint", "tinyint", "boolean", "date", "timestamp"
_TAKEN = "Project", "Filter", "Aggregate", "SubqueryAlias"
_BELOW = "View"  # the event table's own plan begins there
_INSTEAD = {
    "Join": "a view reads one event type, once: joins are yet to come",
    "Union": "make a view of each part",
    "Sort": "rows of a view have the order of their keys: ask GET /views for what you need",
    "GlobalLimit": "a view has all rows; `limit` is a parameter of GET /views",
    "LocalLimit": "a view has all rows; `limit` is a parameter of GET /views",
    "Distinct": "each event is there once: name what is to be once in GROUP BY",
    "Deduplicate": "each event is there once: name what is to be once in GROUP BY",
    "Window": "OVER (…) needs all rows at once: group by a window of time",
    "Generate": "explode makes several rows of an event: let the enrichment make several events",
    "Expand": "ROLLUP, CUBE and GROUPING SETS: make a view of each grouping",
    "OneRowRelation": "nothing would ever change it",
    "WithCTE": "write the parts after WITH as subqueries: FROM (SELECT …)",
}

_OF_NOW = re.compile(r"\b(current_timestamp|now|current_date|curdate|localtimestamp|uuid)\(")
_OF_ORDER = re.compile(
    r"\b(first|first_value|last|last_value|any_value)\("
    r"|(?<!sort_array\()\b(collect_list|collect_set|array_agg|listagg|string_agg)\("
)


class Query(NamedTuple):
    rows: DataFrame  # with the columns of their key first
    key: tuple[str, ...]
    mode: str  # of Spark's output


def own_session(spark: SparkSession) -> SparkSession:
    """Where names mean what they mean to one view, and where what cannot be computed is null: an
    event that is divided by 0 must not stop the view for all others."""
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own


def query_of(row: View, table: DataFrame) -> Query:
    """`table`: of a session of the view's own."""
    if not row.sql.lstrip("( \n\t").upper().startswith(("SELECT", "WITH", "FROM")):
        raise _wrong(row, f"a view is a SELECT, not {row.sql.split()[0]}")
    try:
        table.createOrReplaceTempView(row.of[0])
        rows = table.sparkSession.sql(row.sql)
    except (AnalysisException, ParseException) as error:
        raise _wrong(row, _told(error)) from None
    key = _key(row, rows.schema)
    _refuse_what_cannot_be_kept(row, rows, key)
    mode = "update" if _aggregates(rows) and row.results == "update" else "append"
    others = [name for name in rows.columns if name not in key]
    return Query(rows.select(*key, *others), key, mode)


def _key(row: View, schema: StructType) -> tuple[str, ...]:
    names = schema.names
    if len({name.lower() for name in names}) < len(names):
        raise _wrong(row, f"two columns have one name, out of {', '.join(names)}: rename with AS")
    if META in names:
        raise _wrong(row, f"a column is called {META}, which is where rows have their version")
    for name in row.key:
        if name not in names:
            known = ", ".join(names)
            raise _wrong(row, f"its key names {name!r}, which the SELECT has not; it has: {known}")
        kind = schema[name].dataType.simpleString()
        if kind not in _KEY_KINDS:
            raise _wrong(row, f"{name} is {kind}, and a key is text, a whole number or a time")
    windows = [field.name for field in schema if _is_window(field.dataType)]
    if len(windows) > 1 or (windows and windows != [WINDOW]):
        raise _wrong(
            row,
            f"its windows of time are {', '.join(windows)}: there is one, and it is called "
            f"{WINDOW} (SELECT session_window AS {WINDOW})",
        )
    return (*row.key, *(name for name in windows if name not in row.key))


def _is_window(kind: Any) -> bool:
    return (
        isinstance(kind, StructType)
        and kind.names == ["start", "end"]
        and all(isinstance(field.dataType, TimestampType) for field in kind)
    )


def _refuse_what_cannot_be_kept(row: View, rows: DataFrame, key: tuple[str, ...]) -> None:
    plan = _plan(rows)
    nodes = [*_above_the_table(plan)]
    for node in nodes:
        its = _kind(node)
        if its not in _TAKEN:
            why = _INSTEAD.get(its, f"{its} cannot be kept up to date")
            raise _wrong(row, f"{why}; a view is SELECT … FROM {row.of[0]} WHERE … GROUP BY …")
        _refuse_what_changes(row, node)
    if plan.collectLeaves().size() != 1 or not rows.isStreaming:
        raise _wrong(row, f"it reads {row.of[0]} once, and nothing else")
    groups = [node for node in nodes if _kind(node) == "Aggregate"]
    if len(groups) > 1:
        raise _wrong(row, "it groups twice: one GROUP BY is all that can be kept up to date")
    if groups:
        _refuse_bad_group(row, rows, key, nodes, groups[0])
    elif "event_id" not in key:
        raise _wrong(row, "without GROUP BY each event is a row: its key needs event_id")


def _refuse_bad_group(
    row: View, rows: DataFrame, key: tuple[str, ...], nodes: list[Any], group: Any
) -> None:
    grouped = {*_names_of_groups(row, rows, group)}
    missing = [name for name in grouped if name not in key]
    if missing:
        raise _wrong(
            row,
            f"it groups by {', '.join(sorted(missing))} as well, so one key would have several "
            "rows: SELECT it, under that name, and name it in the key",
        )
    by_window = WINDOW in key
    is_session = "session_window" in group.groupingExpressions().toString()
    if row.results == "update":
        if any(_kind(node) == "Filter" for node in _above(nodes, group)):
            raise _wrong(
                row,
                "HAVING (or a WHERE around it) would leave a row as it was when it no longer "
                'passes: take it out and ask for it, or let results be "final"',
            )
        if is_session:
            raise _wrong(row, 'a session grows together with others: results are "final"')
    elif not by_window:
        raise _wrong(row, "results are final when a window closes: group by window(time, …)")


def _names_of_groups(row: View, rows: DataFrame, group: Any) -> Iterator[str]:
    """What the rows call that which they are grouped by; where they do not have it, the SQL."""
    by_id = {field.exprId().id(): field.name() for field in _list(rows_output(rows))}
    passed = {its: its for its in by_id}
    for node in _above_the_table(_plan(rows)):
        if _kind(node) == "Project":
            for one in _list(node.projectList()):
                _follow(one, passed)
    for expression in _list(group.groupingExpressions()):
        found = None
        for one in _list(group.aggregateExpressions()):
            its = one.child() if one.getClass().getSimpleName() == "Alias" else one
            if its.semanticEquals(expression):
                found = by_id.get(passed.get(one.exprId().id(), -1)) or found
        yield found or expression.sql().replace(f"{row.of[0]}.", "")


def _follow(one: Any, passed: dict[int, int]) -> None:
    """Through a column that is renamed on its way."""
    if one.getClass().getSimpleName() == "Alias" and one.exprId().id() in passed:
        child = one.child()
        if child.getClass().getSimpleName() == "AttributeReference":
            passed[child.exprId().id()] = passed[one.exprId().id()]


def rows_output(rows: DataFrame) -> Any:
    return _plan(rows).output()


def _refuse_what_changes(row: View, node: Any) -> None:
    """From one computing to the next."""
    for expression in _list(node.expressions()):
        text = expression.sql().lower()
        if now := _OF_NOW.search(text):
            raise _wrong(row, f"{now[1]}() says something else each time: use time or arrived")
        if one := _OF_ORDER.search(text):
            raise _wrong(
                row,
                f"{one[1] or one[2]}() depends on which event comes first, which is another one "
                "each time: max_by(value, time) is the latest, sort_array(collect_set(value)) all",
            )
        if not expression.deterministic():
            raise _wrong(row, f"{text} is something else each time")


def _aggregates(rows: DataFrame) -> bool:
    return any(_kind(node) == "Aggregate" for node in _above_the_table(_plan(rows)))


def _above(nodes: list[Any], group: Any) -> list[Any]:
    return nodes[: next(i for i, node in enumerate(nodes) if node.fastEquals(group))]


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


def _above_the_table(node: Any) -> Iterator[Any]:
    if _kind(node) == _BELOW:
        return
    yield node
    for child in _list(node.children()):
        yield from _above_the_table(child)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _list(those: Any) -> list[Any]:
    return [those.apply(number) for number in range(those.size())]


def _told(error: AnalysisException | ParseException) -> str:
    """Its first lines, without the plan that comes after them."""
    lines = str(error).split("\nJVM stacktrace")[0].splitlines()
    kept: list[str] = []
    for line in lines:
        if line.startswith(("'", "+-", "==")):
            break
        kept.append(line.strip())
    return " ".join(line for line in kept if line).split(" SQLSTATE")[0].rstrip(";")


def _wrong(row: View, why: str) -> WrongViewError:
    return WrongViewError(f"VIEW_WRONG: view {row.name}: {' '.join(why.split())}")
