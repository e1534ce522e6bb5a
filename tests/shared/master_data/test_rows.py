from typing import Any, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from shared.master_data.rows import BadRowError, difference, is_key, row_from_source, row_of
from shared.model import Table


class Price(TypedDict):
    sku: str
    cents: int
    tags: NotRequired[list[str]]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: str
    cents: float = 1


PRICES = Table("price", row=Price, key="sku")
ANYTHING = Table("anything")


def test_the_key_is_part_of_the_row_whether_it_was_said_there_or_not() -> None:
    for fields in ({"cents": 5}, {"sku": "a", "cents": 5}):
        assert row_of(PRICES, fields, "a") == ("a", {"sku": "a", "cents": 5})
    assert row_of(PRICES, {"sku": "a", "cents": 5}) == ("a", {"sku": "a", "cents": 5})


@pytest.mark.parametrize(
    ("fields", "key", "says"),
    [
        ([1], "a", "a row is a JSON object, not list"),
        ({"cents": "5"}, "a", "wrong_type: cents: Input should be a valid integer"),
        ({}, "a", "field_missing: cents: Field required"),
        ({"sku": "b", "cents": 5}, "a", "its sku is 'b', and its key is 'a'"),
        ({"cents": 5}, None, "field_missing: sku"),
        ({"cents": 5}, "_relay", "sku: a key has"),
        ({"cents": 5}, "a\nb", "sku: a key has"),
        ({"cents": 5, "tags": ["a\0"]}, "a", "stored nowhere"),
        ({"cents": 5, "tags": ["a" * 2**20]}, "a", "it has 1048[0-9]+ bytes, 1048576 may be"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(fields: Any, key: str | None, says: str) -> None:
    with pytest.raises(BadRowError, match=says):
        row_of(PRICES, fields, key)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 2**70])
def test_a_number_that_json_cannot_say_is_refused(number: float) -> None:
    with pytest.raises(BadRowError):
        row_of(ANYTHING, {"n": {"deep": [number]}}, "a")


def test_a_table_without_a_contract_takes_any_object_with_its_key() -> None:
    assert row_of(ANYTHING, {"id": "a", "x": [1]}) == ("a", {"id": "a", "x": [1]})
    for fields in ({"x": 1}, {"id": 7}):
        with pytest.raises(BadRowError, match="no text 'id'"):
            row_of(ANYTHING, fields)


def test_texts_become_what_the_contract_asks_for() -> None:
    assert row_of(PRICES, {"sku": "1", "cents": "5"}, are_texts=True).fields == {
        "sku": "1",
        "cents": 5,
    }
    strict = Table("price", row=Strict, key="sku")
    assert row_of(strict, {"sku": "1"}, are_texts=True).fields == {"sku": "1", "cents": 1.0}


def test_a_column_that_the_contract_does_not_know_is_not_dropped_in_silence() -> None:
    with pytest.raises(BadRowError, match="field_unknown: cent:"):
        row_of(PRICES, {"sku": "1", "cents": "5", "cent": "6"}, are_texts=True)


@pytest.mark.parametrize("key", ["a", "4006381333931", "Käse 5%", "acme/a", "x" * 256])
def test_what_a_key_may_be(key: str) -> None:
    assert is_key(key)


@pytest.mark.parametrize(
    "key", ["", "_relay", "_", "a/b/c", "EUR/USD", "/a", "a/", "a\tb", "a\0", "x" * 257]
)
def test_what_a_key_may_not_be(key: str) -> None:
    assert not is_key(key)


def test_a_difference_tells_what_is_new_changed_the_same_or_absent() -> None:
    there = {"a": {"n": 1}, "b": {"n": 1, "m": 2}, "c": {"n": True}, "d": {}}
    found = difference(there, {"b": {"m": 2, "n": 1}, "c": {"n": 1}, "e": {}})
    assert found.added == {"e": {}}
    assert found.changed == {"c": ({"n": True}, {"n": 1})}
    assert (found.same, found.absent) == (1, ["a", "d"])
    assert found.set == {"e": {}, "c": {"n": 1}}


def test_of_a_row_of_somebody_elses_no_more_is_taken_than_the_contract_knows() -> None:
    found = {"sku": 7, "cents": 5, "tags": None, "owner": "somebody"}
    assert row_from_source(PRICES, found) == ("7", {"sku": "7", "cents": 5})
    assert row_from_source(PRICES, {"cents": 5}, "7") == ("7", {"sku": "7", "cents": 5})
    assert row_from_source(ANYTHING, {"id": "a", "x": 1}) == ("a", {"id": "a", "x": 1})


def test_a_null_where_the_contract_wants_a_value_is_refused() -> None:
    with pytest.raises(BadRowError, match="wrong_type: cents"):
        row_from_source(PRICES, {"sku": "a", "cents": None})
