"""A query's plan, as Spark has analysed it: what it does above the event table, and what becomes of
its columns. The one place that looks into Spark's own classes."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_TEMPORARY_VIEW = "View"  # under it is the event table's own plan
# Spark's mark of a column that moves with the watermark
OF_EVENT_TIME = "spark.watermarkDelayMs"
_OF_WINDOWS = "spark.timeWindow"
# of a smaller number py4j makes an int, where Spark wants a long
_SOME_TIME_MS = 1 << 40


def above_the_table(rows: DataFrame) -> list[Any]:
    """The uppermost first."""
    return [*_above_the_table(_plan(rows))]


def tables_read(rows: DataFrame) -> list[str]:
    """Event tables by name, "" for what is none; one that is read twice twice."""
    return [*_tables_read(_plan(rows))]


class Joined:
    """What Spark makes of the joins in a query, once it has optimised it."""

    def __init__(self, rows: DataFrame) -> None:
        jvm = rows.sparkSession.sparkContext._jvm
        assert jvm is not None
        self._catalyst = jvm.org.apache.spark.sql.catalyst
        self._some_time = jvm.scala.Option.apply(_SOME_TIME_MS)
        session = rows.sparkSession._jsparkSession.sessionState()
        self.nodes = [
            node for node in _nodes(session.optimizer().execute(_plan(rows))) if is_join(node)
        ]

    def lacks_equality(self) -> bool:
        return any(self._equal(node).isEmpty() for node in self.nodes)

    def has_two_times(self) -> bool:
        """On one side, where Spark knows of one alone."""
        return any(
            len({_id(one) for one in items(side.output()) if has_event_time(one)}) > 1
            for node in self.nodes
            for side in (node.left(), node.right())
        )

    def equals_other_times(self) -> bool:
        """A time of events is to be equal to what is none: Spark would forget both by that time."""
        return any(one != other for node in self.nodes for one, other in self._equal_times(node))

    def kept_for_ms(self) -> int | None:
        """How much longer than to its time an event may wait for those that it is joined to; None
        where it waits for ever."""
        each = [self._kept_for_ms(node) for node in self.nodes]
        known = [one for one in each if one is not None]
        return sum(known) if len(known) == len(each) else None

    def _kept_for_ms(self, node: Any) -> int | None:
        if any(both == (True, True) for both in self._equal_times(node)):
            return 0
        kept_to = [
            self._kept_to(node, node.left(), node.right()),
            self._kept_to(node, node.right(), node.left()),
        ]
        if any(one.isEmpty() for one in kept_to):
            return None
        return max(0, *(_SOME_TIME_MS - int(one.get()) for one in kept_to))

    def _kept_to(self, node: Any, kept: Any, other: Any) -> Any:
        times = kept.outputSet()
        for one in items(kept.output()):
            if not has_event_time(one):  # Spark forgets by the event's time, whatever is compared
                times = getattr(times, "$minus")(one)
        helper = self._catalyst.analysis.StreamingJoinHelper
        asked = other.outputSet(), node.condition(), self._some_time
        return helper.getStateValueWatermark(times, *asked)

    def _equal(self, node: Any) -> Any:
        return self._catalyst.planning.ExtractEquiJoinKeys.unapply(node)

    def _equal_times(self, node: Any) -> Iterator[tuple[bool, bool]]:
        """Which of each pair of keys is an event's time."""
        keys = self._equal(node).get()
        for pair in zip(items(keys._2()), items(keys._3()), strict=True):
            left, right = (
                kind_of(key) == "AttributeReference" and has_event_time(key) for key in pair
            )
            yield left, right


def ask_spark(rows: DataFrame, mode: str) -> None:
    """AnalysisException where it would refuse the query at its start."""
    jvm = rows.sparkSession.sparkContext._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(_plan(rows), modes.Update() if mode == "update" else modes.Append())


def times_made_of(nodes: list[Any], times: list[Any]) -> list[Any]:
    """Those, and what the nodes make of them on the way up, as windows and under other names."""
    found = [*times]
    for node in reversed(nodes):
        if kind_of(node) in ("Project", "Expand"):
            below = {_id(one) for child in items(node.children()) for one in items(child.output())}
            for one in items(node.output()):
                if _id(one) not in below and has_event_time(one) and _is_made_of(node, one, found):
                    found.append(one)
    return found


def shows(node: Any, name: str, columns: list[Any]) -> bool:
    """Whether its column of that name is one of these."""
    ids = {_id(one) for one in columns}
    return any(one.name() == name and _id(one) in ids for one in items(node.output()))


def _is_made_of(node: Any, column: Any, times: list[Any]) -> bool:
    at = [_id(one) for one in items(node.output())].index(_id(column))
    columns = node.projectList() if kind_of(node) == "Project" else node.projections().apply(0)
    made_by = columns.apply(at)
    return any(made_by.references().contains(time) for time in times)


def is_join(node: Any) -> bool:
    return kind_of(node) == "Join"


def never_null(rows: DataFrame) -> set[str]:
    """Columns, by what they are and by the conditions that a row has to meet."""
    plan = _plan(rows)
    met = {
        _id(one.child())
        for one in items(plan.constraints().toSeq())
        if kind_of(one) == "IsNotNull" and kind_of(one.child()) == "AttributeReference"
    }
    columns = items(plan.output())
    return {one.name() for one in columns if not one.nullable() or _id(one) in met}


def kind_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def makes_windows(node: Any) -> bool:
    """Whether it makes windows of which an event may be in several, as those that overlap; ROLLUP
    and UNPIVOT make the like."""
    return kind_of(node) == "Expand" and any(
        one.metadata().contains(_OF_WINDOWS) for one in items(node.output())
    )


def has_event_time(column: Any) -> bool:
    is_named = kind_of(column) in ("AttributeReference", "Alias")
    return is_named and bool(column.metadata().contains(OF_EVENT_TIME))


def items(those: Any) -> list[Any]:
    return [those.apply(number) for number in range(those.size())]


def unnamed(column: Any) -> Any:
    return column.child() if kind_of(column) == "Alias" else column


class Shown:
    """Under which names the rows show columns of further below."""

    def __init__(self, rows: DataFrame, above: list[Any]) -> None:
        """`above`: what stands between, the uppermost first."""
        self.rows = rows
        self.above = above
        self._names: dict[int, set[str]] = {}
        for one in items(_plan(rows).output()):
            self._names.setdefault(_id(one), set()).add(one.name())
        for node in above:
            if kind_of(node) == "Project":
                for one in items(node.projectList()):
                    if kind_of(unnamed(one)) == "AttributeReference":
                        below = self._names.setdefault(_id(unnamed(one)), set())
                        below |= self._names.get(_id(one), set())

    def names(self, column: Any) -> set[str]:
        return self._names.get(_id(column), set())

    def of_each_table(self, name: str) -> list[set[str]]:
        """Under which names the rows show this column of each event table."""
        return [
            self.names(one)
            for node in self.above
            for table in items(node.children())
            if kind_of(table) == _TEMPORARY_VIEW
            for one in items(table.output())
            if one.name() == name
        ]


def _tables_read(node: Any) -> Iterator[str]:
    children = items(node.children())
    if kind_of(node) == _TEMPORARY_VIEW:
        yield str(node.desc().identifier().table())
    elif not children:
        yield ""
    else:
        for child in children:
            yield from _tables_read(child)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in items(node.children()):
        yield from _nodes(child)


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().analyzed()


def _above_the_table(node: Any) -> Iterator[Any]:
    if kind_of(node) == _TEMPORARY_VIEW:
        return
    yield node
    for child in items(node.children()):
        yield from _above_the_table(child)


def _id(column: Any) -> int:
    return int(column.exprId().id())
