"""An index knows the fields of a state by its contract."""

from typing import Any

import pytest
from typing_extensions import TypedDict

from shared.flow import FLOW
from shared.model import Entity
from shared.search.mapping import mapping_of


class Place(TypedDict):
    name: str
    floor: int | None


class Room(TypedDict):
    open: bool
    heat: float
    heat_or_count: int | float
    place: Place
    doors: list[Place]
    tags: list[str]
    odd: int | str
    free: dict[str, Any]


def fields_of(shape: Any) -> dict[str, Any]:
    row = Entity("room", (), lambda _: {}, lambda state, _: state, state=shape)
    found: dict[str, Any] = mapping_of(row)["properties"]["state"]
    return found


def test_each_field_is_of_the_kind_that_its_contract_says() -> None:
    fields = fields_of(Room)["properties"]
    kinds = {name: its.get("type") for name, its in fields.items()}
    assert kinds == {
        "open": "boolean",
        "heat": "double",
        "heat_or_count": "double",
        "place": None,
        "doors": None,
        "tags": "keyword",
    }
    assert fields["doors"] == fields["place"]
    assert fields["place"]["properties"]["floor"] == {"type": "long"}


@pytest.mark.parametrize("shape", [None, dict[str, Any]])
def test_without_a_contract_the_index_finds_out(shape: Any) -> None:
    assert fields_of(shape) == {"type": "object"}


class Tree(TypedDict):
    name: str
    under: "list[Tree]"


def test_a_contract_of_itself_ends() -> None:
    assert fields_of(Tree)["properties"]["name"]["type"] == "keyword"


def test_no_text_becomes_a_date() -> None:
    for row in FLOW.with_state:
        assert mapping_of(row)["date_detection"] is False
