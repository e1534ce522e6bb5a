"""A query's plan, as Spark has analysed it: what it does above the event table, and what becomes of
its columns. The one place that looks into Spark's own classes."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_TEMPORARY_VIEW = "View"  # under it is the event table's own plan
# Spark's mark of a column that moves with the watermark
OF_EVENT_TIME = "spark.watermarkDelayMs"
_OF_WINDOWS = "spark.timeWindow"


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
        # a time, as an option of a long; of a smaller number py4j makes an int
        self._some_time = jvm.scala.Option.apply(1 << 40)
        session = rows.sparkSession._jsparkSession.sessionState()
        self.nodes = [
            node for node in _nodes(session.optimizer().execute(_plan(rows))) if is_join(node)
        ]

    def lacks_equality(self) -> bool:
        return any(self._equal(node).isEmpty() for node in self.nodes)

    def lacks_bound(self) -> bool:
        """Of time, so that what waits on one side or the other waits for ever."""
        return any(
            not self._is_of_one_time(node)
            and (
                self._is_endless(node, node.left(), node.right())
                or self._is_endless(node, node.right(), node.left())
            )
            for node in self.nodes
        )

    def _equal(self, node: Any) -> Any:
        return self._catalyst.planning.ExtractEquiJoinKeys.unapply(node)

    def _is_of_one_time(self, node: Any) -> bool:
        keys_of_the_left = items(self._equal(node).get()._2())
        return any(
            kind_of(key) == "AttributeReference" and has_event_time(key) for key in keys_of_the_left
        )

    def _is_endless(self, node: Any, kept: Any, other: Any) -> bool:
        helper = self._catalyst.analysis.StreamingJoinHelper
        return bool(
            helper.getStateValueWatermark(
                kept.outputSet(), other.outputSet(), node.condition(), self._some_time
            ).isEmpty()
        )


def ask_spark(rows: DataFrame, mode: str) -> None:
    """AnalysisException where it would refuse the query at its start."""
    jvm = rows.sparkSession.sparkContext._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(_plan(rows), modes.Update() if mode == "update" else modes.Append())


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
    """Of windows that overlap an event is in several; ROLLUP and UNPIVOT make the like."""
    return kind_of(node) == "Expand" and any(
        one.metadata().contains(_OF_WINDOWS) for one in items(node.output())
    )


def has_event_time(column: Any) -> bool:
    return bool(column.metadata().contains(OF_EVENT_TIME))


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
