"""Rows that count from a time on: what they are kept under, and which one counts when."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from shared.master_data.rows import BadRowError, kept_key, row_from_source, row_of
from shared.master_data.timed_key import TimedKey, Times, timed_key
from shared.model import Table


class Price(TypedDict):
    sku: str
    from_ms: int
    cents: int


PRICES = Table("price", row=Price, key="sku", valid_from="from_ms")
ROW = {"sku": "a", "from_ms": 100, "cents": 5}


def test_a_row_is_kept_under_its_key_and_its_time() -> None:
    for fields, key in (
        (ROW, None),
        (ROW, "a"),
        (ROW, "a@100"),
        ({"cents": 5}, "a@100"),
        ({"cents": 5, "from_ms": 100}, "a"),
    ):
        assert row_of(PRICES, fields, key) == ("a@100", ROW)
    texts = {"sku": "a", "from_ms": "100", "cents": "5"}
    assert row_of(PRICES, texts, are_texts=True) == ("a@100", ROW)


@pytest.mark.parametrize(
    ("fields", "key", "says"),
    [
        (ROW, "a@101", "its sku is 'a', and its key is 'a@101'"),
        ({"cents": 5}, "a", "field_missing: from_ms"),
        ({**ROW, "from_ms": 10**16}, None, "no 'from_ms' in epoch milliseconds"),
        ({**ROW, "sku": "_a"}, None, "a key has"),
    ],
)
def test_a_row_without_its_time_is_refused(fields: Any, key: str | None, says: str) -> None:
    with pytest.raises(BadRowError, match=says):
        row_of(PRICES, fields, key)


def test_somebody_elses_row_is_kept_under_the_same() -> None:
    assert row_from_source(PRICES, {**ROW, "sku": 7, "more": 1}, "7@100").key == "7@100"
    assert kept_key(PRICES, {"sku": 7, "from_ms": 100}) == "7@100"
    assert kept_key(PRICES, {"sku": 7}) is None


@given(st.text("a@0-é", min_size=1), st.integers(-(10**13), 10**13))
def test_a_kept_key_tells_key_and_time(key: str, from_ms: int) -> None:
    assert timed_key(str(TimedKey(key, from_ms))) == (key, from_ms)


@pytest.mark.parametrize("kept", ["a", "a@", "@5", "a@x", "a@05", "a@-0", "a@²", "a@--5"])
def test_what_has_no_time_is_no_kept_key(kept: str) -> None:
    assert timed_key(kept) is None


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 9), st.booleans())),
    st.integers(-5, 12),
)
def test_the_row_that_began_last_counts_whatever_came_and_went(
    changes: list[tuple[str, int, bool]], time_ms: int
) -> None:
    times, there = Times(), set[tuple[str, int]]()
    for key, from_ms, is_there in changes:
        times.note(f"{key}@{from_ms}", is_there=is_there)
        (there.add if is_there else there.discard)((key, from_ms))
    for key in "ab":
        begun = [from_ms for its, from_ms in there if its == key and from_ms <= time_ms]
        assert times.kept_at(key, time_ms) == (f"{key}@{max(begun)}" if begun else None)
