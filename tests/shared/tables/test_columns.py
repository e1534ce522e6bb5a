"""Fields of contracts as columns, and what becomes of values that have none."""

from typing import Any, Literal, NotRequired

from pydantic import BaseModel
from typing_extensions import TypedDict

from shared.model import EventType
from shared.tables.columns import columns_of, values_of


class Place(TypedDict):
    name: str


class Size(BaseModel):
    width: float


class Data(TypedDict):
    value: float | None
    count: NotRequired[int]
    status: Literal["on", "off"]
    is_new: bool
    either: int | str
    number: int | float
    place: Place
    size: Size | None
    tags: list[str]
    type: str


COLUMNS = columns_of((EventType("one", data=Data),))
VALUES = {
    "value": 1,
    "count": 2,
    "status": "on",
    "is_new": True,
    "either": "x",
    "number": 3,
    "place": {"name": "here"},
    "size": None,
    "tags": ["a"],
    "type": "mine",
}


def row(**changes: Any) -> tuple[dict[str, Any], str | None]:
    values, rest = values_of(COLUMNS, {**VALUES, **changes})
    return dict(zip([column.name for column in COLUMNS], values, strict=True)), rest


def test_a_field_has_the_type_of_its_contract() -> None:
    assert {column.name: column.kind for column in COLUMNS} == {
        "value": "double",
        "count": "bigint",
        "status": "string",
        "is_new": "boolean",
        "either": "json",
        "number": "double",
        "place": "json",
        "size": "json",
        "tags": "json",
        "data_type": "string",
    }


def test_nothing_is_lost() -> None:
    values, rest = row()
    assert rest is None
    assert values["place"] == '{"name":"here"}'
    assert (values["data_type"], values["size"], values["value"]) == ("mine", None, 1)
    values, rest = row(count="many", value=True, more=[1])
    assert (values["count"], values["value"]) == (None, None)
    assert rest == '{"value":true,"count":"many","more":[1]}'
    _, rest = row(count=1 << 63, value=(1 << 53) + 1)
    assert rest == '{"value":9007199254740993,"count":9223372036854775808}'


def test_of_a_type_without_a_contract_all_is_the_rest() -> None:
    assert values_of(columns_of((EventType("one"),)), {"a": 1}) == ([], '{"a":1}')
