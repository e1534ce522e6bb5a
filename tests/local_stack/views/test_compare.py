"""Rows of two versions of a view, told apart only where they speak of the same part of the log."""

from typing import Any

import pytest

from local_stack.views.compare import Difference, Rows, columns_of_one_alone, compare
from shared.timestamps import to_rfc3339

KEY = "area", "window"


def rows(*found: dict[str, Any], read_to_ms: int = 1000) -> Rows:
    return Rows.of(found, KEY, to_rfc3339(read_to_ms) if read_to_ms else None)


def row(area: str, version: int = 1, **fields: Any) -> dict[str, Any]:
    return {"area": area, **fields, "_meta": {"version": version}}


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1, 1.001, False),
        (1, True, False),
        (0, None, False),
        ("1", 1, False),
        ([1], [1], True),
        (None, None, True),
    ],
)
def test_rows_are_alike_by_the_columns_of_both(old: object, new: object, is_same: bool) -> None:
    its, others = rows(row("a", mean=old, gone=1)), rows(row("a", 7, mean=new, added=2))
    found = compare(its, others)
    assert (found.alike, found.undecided) == (int(is_same), 0)
    wanted = [] if is_same else [Difference('area="a"', {"mean": old}, {"mean": new})]
    assert found.differences == wanted
    assert columns_of_one_alone(its, others) == (["gone"], ["added"])


def test_a_row_of_one_alone_is_a_difference() -> None:
    found = compare(rows(row("a"), row("b")), rows(row("b"), row("c")))
    assert (found.alike, found.undecided) == (1, 0)
    assert {(one.key, one.old is None, one.new is None) for one in found.differences} == {
        ('area="a"', False, True),
        ('area="c"', True, False),
    }
    assert columns_of_one_alone(rows(row("a", n=1)), rows()) == ([], [])


@pytest.mark.parametrize(
    ("old", "old_to", "new", "new_to", "is_decided"),
    [
        (10, 100, 20, 100, True),
        (10, 100, 101, 200, False),  # the new one has seen what the old one has not
        (101, 100, 50, 150, True),  # newer than what was known to be read
        (300, 100, 50, 150, False),
        (10, 0, 50, 150, False),  # nothing is known of how far it has read
        (10, 0, 10, 150, True),
    ],
)
def test_rows_of_other_parts_of_the_log_are_not_compared(
    old: int, old_to: int, new: int, new_to: int, is_decided: bool
) -> None:
    its, others = (
        rows(row("a", old, n=1), read_to_ms=old_to),
        rows(row("a", new, n=2), read_to_ms=new_to),
    )
    found = compare(its, others)
    assert (len(found.differences), found.undecided) == ((1, 0) if is_decided else (0, 1))


def test_a_row_that_came_after_all_the_other_has_read_is_no_difference() -> None:
    assert compare(rows(read_to_ms=100), rows(row("a", 101), read_to_ms=200)).undecided == 1
    assert len(compare(rows(read_to_ms=101), rows(row("a", 101), read_to_ms=200)).differences) == 1


def test_windows_belong_to_the_key() -> None:
    of = [row("a", window={"start": number, "end": number + 1}, n=number) for number in (1, 2)]
    assert compare(rows(*of), rows(*of)).alike == 2
