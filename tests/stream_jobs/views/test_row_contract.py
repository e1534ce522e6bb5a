"""A contract that is not that of the query's columns is refused with what to write."""

import pytest
from typing_extensions import TypedDict

from shared.model import View
from shared.tables.column_types import Window
from stream_jobs.views.row_contract import SparkColumn, why_not


class ByArea(TypedDict):
    area: str | None
    window: Window
    n: int
    mean: float | None


ROW = View("by_area", ("reading",), "SELECT …", ("area",), row=ByArea)
COLUMNS = {
    "area": ("string", True),
    "window": ("struct<start:timestamp,end:timestamp>", False),
    "n": ("bigint", False),
    "mean": ("double", True),
}


def said(**changes: tuple[str, bool]) -> str | None:
    found = {**COLUMNS, **changes}
    return why_not(ROW, [SparkColumn(name, *its) for name, its in found.items()])


def test_what_fits_is_taken() -> None:
    assert said() is None
    assert said(area=("string", False), n=("int", False), mean=("float", True)) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hot": ("boolean", False)}, "ByArea has no hot: write `hot: bool` there"),
        ({"at": ("timestamp", True)}, "ByArea has no at: write `at: Time | None` there"),
        (
            {"n": ("double", True)},
            "n is double, and a whole number in ByArea: write `n: float | None` in ByArea, or "
            "CAST(… AS BIGINT) AS n in the SELECT",
        ),
        (
            {"mean": ("decimal(12,1)", True)},
            "mean is decimal(12,1), and a number in ByArea: write CAST(… AS DOUBLE) AS mean in the "
            "SELECT",
        ),
        (
            {"n": ("bigint", True)},
            "n may be null, and not in ByArea: write `n: int | None` there, or coalesce(…) AS n in "
            "the SELECT, or leave such events out (WHERE … IS NOT NULL)",
        ),
        ({"area": ("array<string>", True)}, "write `area: list | None` in ByArea"),
    ],
)
def test_what_does_not_is_refused_with_what_to_write(
    changes: dict[str, tuple[str, bool]], told: str
) -> None:
    assert told in str(said(**changes))


def test_a_column_that_the_query_has_not_is_named() -> None:
    columns = [SparkColumn(name, *its) for name, its in COLUMNS.items() if name != "mean"]
    assert why_not(ROW, columns) == (
        "ByArea has mean, and the SELECT has not; it has: area, window, n"
    )
