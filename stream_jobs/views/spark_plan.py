"""A query's plan, as Spark has analysed it: what it does above the event table, and what becomes of
its columns. The one place that looks into Spark's own classes."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_TEMPORARY_VIEW = "View"  # under it is the event table's own plan
_OF_WINDOWS = "spark.timeWindow"


def above_the_table(rows: DataFrame) -> list[Any]:
    """The uppermost first."""
    return [*_above_the_table(_plan(rows))]


def reads_once(rows: DataFrame) -> bool:
    """From one stream."""
    return bool(_plan(rows).collectLeaves().size() == 1 and rows.isStreaming)


def ask_spark(rows: DataFrame, mode: str) -> None:
    """AnalysisException where it would refuse the query at its start."""
    jvm = rows.sparkSession.sparkContext._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(_plan(rows), modes.Update() if mode == "update" else modes.Append())


def kind_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def makes_windows(node: Any) -> bool:
    """Of windows that overlap an event is in several; ROLLUP and UNPIVOT make the like."""
    return kind_of(node) == "Expand" and any(
        one.metadata().contains(_OF_WINDOWS) for one in items(node.output())
    )


def items(those: Any) -> list[Any]:
    return [those.apply(number) for number in range(those.size())]


def unnamed(column: Any) -> Any:
    return column.child() if kind_of(column) == "Alias" else column


class Shown:
    """Under which names the rows show columns of further below."""

    def __init__(self, rows: DataFrame, above: list[Any]) -> None:
        """`above`: what stands between, the uppermost first."""
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

    def is_of_the_table(self, name: str) -> bool:
        table = next(
            child
            for node in self.above
            for child in items(node.children())
            if kind_of(child) == _TEMPORARY_VIEW
        )
        return any(one.name() == name in self.names(one) for one in items(table.output()))


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
