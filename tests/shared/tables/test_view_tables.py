"""Contracts of views' rows as tables, and what becomes of rows in them."""

from dataclasses import replace
from typing import Any, Literal, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from shared.flow import FLOW
from shared.model import View
from shared.tables.column_types import Date, Time, Window
from shared.tables.view_tables import ViewTable, table_of, value_of


class Place(TypedDict):
    name: str


class Row(TypedDict):
    area: str
    window: Window
    n: int
    mean: float | None
    status: Literal["on", "off"]
    is_hot: bool
    day: Date | None
    first: Time
    place: Place
    models: list[str]
    either: int | float


class Totals(BaseModel):
    tenant: str | None
    n: int


AREAS = View("areas", ("reading",), "SELECT …", ("area",), row=Row)
ROW: dict[str, Any] = {
    "area": "north",
    "window": {"start": "2026-11-26T08:00:00.000000Z", "end": "2026-11-26T08:05:00.000000Z"},
    "n": 3,
    "mean": None,
    "status": "on",
    "is_hot": False,
    "day": "2026-11-26",
    "first": "2026-11-26T08:00:00.000001Z",
    "place": {"name": "here"},
    "models": ["m"],
    "either": 4,
}


def values(**changes: Any) -> dict[str, Any]:
    return {one.name: value_of(one, {**ROW, **changes}) for one in table_of(AREAS).columns}


def test_columns_have_the_types_of_the_contract() -> None:
    table = table_of(AREAS)
    assert (table.name, table.key) == ("view_areas", ("area", "window_start", "window_end"))
    assert {one.name: (one.sql_type, one.may_be_null) for one in table.columns} == {
        "area": ("text", False),
        "window_start": ("timestamp with time zone", False),
        "window_end": ("timestamp with time zone", False),
        "n": ("bigint", False),
        "mean": ("double precision", True),
        "status": ("text", False),
        "is_hot": ("boolean", False),
        "day": ("date", True),
        "first": ("timestamp with time zone", False),
        "place": ("jsonb", False),
        "models": ("jsonb", False),
        "either": ("double precision", False),
    }


def test_each_version_of_a_view_has_a_table_of_its_own() -> None:
    totals = replace(AREAS, row=Totals, key=("tenant",))
    table: ViewTable = table_of(replace(totals, version=3))
    assert (table.name, table.has_null_in_key, table.window_index) == ("view_areas_v3", True, None)
    assert table_of(AREAS).window_index == "view_areas_window"
    assert table_of(replace(AREAS, key=("window", "area"))).window_index is None


def test_persist_reads_the_topics_of_views_with_a_contract_alone() -> None:
    plain = replace(AREAS, name="plain", row=None)
    flow = replace(FLOW, views=(AREAS, plain))
    read = flow.job("persist").ignited_by
    assert ("view.areas.v1" in read, "view.plain.v1" in read) == (True, False)


def test_values_are_as_the_store_takes_them() -> None:
    assert values() == {
        **{name: ROW[name] for name in ("area", "n", "status", "is_hot", "day", "first")},
        "window_start": ROW["window"]["start"],
        "window_end": ROW["window"]["end"],
        "mean": None,
        "place": '{"name":"here"}',
        "models": '["m"]',
        "either": 4.0,
    }
    assert str(values(mean="NaN")["mean"]) == "nan"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": None}, "n is null, which the contract does not let it be"),
        ({"n": True}, "n is no whole number"),
        ({"n": 1 << 63}, "n is no whole number"),
        ({"mean": "12"}, "mean is no number"),
        ({"area": 7}, "area is no text"),
        ({"first": "2026-11-26T08:00:00+00:00"}, "first is no time"),
        ({"day": "yesterday"}, "day is no date"),
        ({"window": None}, "it has no window.start"),
        ({"models": {}}, "models is no list"),
        ({"place": []}, "place is no object"),
    ],
)
def test_a_row_off_its_contract_has_no_place_in_the_table(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        values(**changes)


class Absent(TypedDict):
    area: NotRequired[str]


class Several(TypedDict):
    area: str
    either: int | str


class Anything(TypedDict):
    area: str
    either: Any


class OtherWindow(TypedDict):
    area: str
    window: str


class Hour(TypedDict):
    area: str
    hour: Window


class Ours(TypedDict):
    area: str
    _version: int


class OfTheSystem(TypedDict):
    area: str
    xmin: int


class Cases(TypedDict):
    area: str
    Area: str


class Number(TypedDict):
    area: float


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"row": Absent}, "write `area: … | None`"),
        ({"row": Several}, "'either' may be of several types"),
        ({"row": Anything}, "'either' may be of several types"),
        ({"row": OtherWindow}, "write `window: Window`"),
        ({"row": Hour}, "write `window: Window`"),
        ({"row": Ours}, "'_version' is no name of a column"),
        ({"row": OfTheSystem}, "'xmin' is what a table calls something else"),
        ({"row": Cases}, "differ in upper and lower case alone"),
        ({"row": Number}, "'area' is a number, which is no part of a key"),
        ({"row": Place}, "its key names 'area', which the contract `row` has not"),
        ({"row": dict}, "has no fields"),
        ({"row": set}, "has a contract that cannot be used"),
        ({"name": "a" * 60}, "too long for PostgreSQL"),
    ],
)
def test_what_can_be_no_table_is_refused_with_a_sentence(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match="view a") as error:
        replace(FLOW, views=(replace(AREAS, **changed),))
    assert said in str(error.value)
