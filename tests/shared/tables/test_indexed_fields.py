from dataclasses import replace
from typing import Any

import pytest

from shared.flow import FLOW
from shared.tables.indexed_fields import (
    TEXT_CHARS_MAX,
    IndexedField,
    indexed_states,
    refuse_bad_indexed_fields,
)
from tests.gateway.lists.support import room


def test_kinds_come_from_the_contract() -> None:
    rows = [room("mode", "celsius", "site.floor", "site.name", "is_open"), room()]
    (states,) = indexed_states(rows)
    assert states.fields == (
        IndexedField("mode", "string"),
        IndexedField("celsius", "double"),
        IndexedField("site.floor", "bigint"),
        IndexedField("site.name", "string"),
        IndexedField("is_open", "boolean"),
    )


@pytest.mark.parametrize(
    ("state", "values"),
    [
        ({"mode": "day", "site": {"floor": 3}, "is_open": True}, ["day", 3, True]),
        ({"mode": 3, "site": {"floor": "3"}, "is_open": 1}, [None, None, None]),
        ({"mode": None, "site": None}, [None, None, None]),
        ({"site": [1]}, [None, None, None]),
        ({"mode": "x" * (TEXT_CHARS_MAX + 1), "site": {"floor": 1 << 63}}, [None, None, None]),
        ({"mode": "x" * TEXT_CHARS_MAX}, ["x" * TEXT_CHARS_MAX, None, None]),
    ],
)
def test_what_the_contract_does_not_have_there_is_nothing(
    state: dict[str, Any], values: list[Any]
) -> None:
    (states,) = indexed_states([room("mode", "site.floor", "is_open")])
    assert states.values_in(state) == values


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (room("mood"), "room: indexed names 'mood', and there is no such field in the state's "),
        (room("mood"), "there are: site, mode, is_open, celsius, id, tags, anything"),
        (room("site.roof"), "no such field in 'site' of the state's contract; there are: site.na"),
        (room("mode.x"), "no such field in 'mode' of the state's contract; there are: none"),
        (room("site"), "'site', which is no text, number or truth value"),
        (room("tags"), "'tags', which is no text, number or truth value"),
        (room("anything"), "'anything', which is no text, number or truth value"),
        (room("mode", "mode"), "room: indexed names 'mode' twice"),
        (room("id"), "always found and sorted by its id: leave 'id' out"),
        (room("mode", state=None), "room: indexed needs the state's contract"),
        (room(*(f"f{number}" for number in range(17))), "17 indexed fields are too many"),
    ],
)
def test_a_row_that_does_not_add_up_is_refused_with_a_sentence(row: Any, said: str) -> None:
    with pytest.raises(ValueError, match="room: ") as refused:
        refuse_bad_indexed_fields(row)
    assert said in str(refused.value)


def test_a_flow_is_refused_at_its_start() -> None:
    device = FLOW.entities[0]
    with pytest.raises(ValueError, match="device: indexed is no tuple"):
        replace(FLOW, entities=(replace(device, indexed=["area"]),))
    with pytest.raises(ValueError, match="device: indexed names 'color'"):
        replace(FLOW, entities=(replace(device, indexed=("color",)),))
    with pytest.raises(ValueError, match="area: indexed names 'color'"):
        replace(FLOW, aggregates=(replace(FLOW.aggregates[0], indexed=("color",)),))
