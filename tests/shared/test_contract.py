from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from shared.contract import Contract
from shared.flow import FLOW
from shared.sample_domain.telemetry import Reading


class Inner(TypedDict):
    depth: int


class Circle(TypedDict):
    shape: Literal["circle"]
    radius: int


class Square(TypedDict):
    shape: Literal["square"]


class Drawing(TypedDict):
    drawn: Annotated[Circle | Square, Field(discriminator="shape")]


class Shape(TypedDict):
    number: float
    text: str | None
    inner: NotRequired[Inner]


def _wrong(shape: Any, value: Any) -> tuple[str, str]:
    """Its code and detail; the detail begins with its place."""
    breach = Contract(shape).breach(value)
    assert breach
    assert breach.detail.startswith(f"{breach.place}: ") or breach.place == ""
    return breach.code, breach.detail


@pytest.mark.parametrize(
    ("fields", "code", "detail"),
    [
        ({"text": None}, "field_missing", "number: Field required"),
        ({"number": "1", "text": None}, "wrong_type", "number: Input should be a valid number"),
        ({"number": True, "text": None}, "wrong_type", "number: Input should be a valid number"),
        ({"number": 1, "text": b"x"}, "wrong_type", "text: Input should be a valid string"),
        (
            {"number": 1, "text": None, "inner": {"depth": 1.5}},
            "wrong_type",
            "inner.depth: Input should be a valid integer",
        ),
        ({}, "field_missing", "number: Field required (and 1 more)"),
    ],
)
def test_a_breach_says_where_and_what(fields: dict[str, Any], code: str, detail: str) -> None:
    assert _wrong(Shape, fields) == (code, detail)


@pytest.mark.parametrize(
    ("drawn", "code", "detail"),
    [
        ({}, "field_missing", "drawn.shape: Field required"),
        ({"shape": "x"}, "bad_value", "drawn.shape: Input should be one of 'circle', 'square'"),
        ({"shape": "circle"}, "field_missing", "drawn.circle.radius: Field required"),
    ],
)
def test_a_breach_of_one_of_several_shapes_says_how_they_are_told_apart(
    drawn: dict[str, Any], code: str, detail: str
) -> None:
    assert _wrong(Drawing, {"drawn": drawn}) == (code, detail)


def test_nothing_of_the_value_is_told() -> None:
    for shape, value in (
        (Shape, {"number": "secret", "text": ["secret"]}),
        (Drawing, {"drawn": {"shape": "secret"}}),
    ):
        breach = Contract(shape).breach(value)
        assert breach is not None
        assert "secret" not in str(breach)


def test_whole_numbers_are_numbers_and_further_fields_are_welcome() -> None:
    assert Contract(Shape).breach({"number": 1, "text": "x", "further": [1]}) is None


def test_every_row_of_the_sample_has_a_contract_that_can_be_published() -> None:
    shapes = [e.payload for e in FLOW.endpoints] + [t.data for t in FLOW.event_types]
    shapes += [row.state for row in FLOW.with_state]
    for shape in shapes:
        assert Contract(shape).json_schema()["type"] == "object"


def test_what_json_cannot_say_breaks_the_contract_of_a_reading() -> None:
    reading = {"unit": None, "area": "a", "model": "m", "attributes": {}, "rest": {}}
    assert Contract(Reading).breach({**reading, "value": 1.0}) is None
    assert Contract(Reading).breach({**reading, "value": float("nan")}) is not None


class Moment(TypedDict):
    at: datetime


@dataclass
class Point:
    x: int


class Line(TypedDict):
    points: list[Point]


class Many(TypedDict):
    numbers: list[float]


@pytest.mark.parametrize("shape", [Moment, Point, Line, tuple[int, int]])
def test_a_shape_that_no_json_value_keeps_is_refused_at_once(shape: Any) -> None:
    with pytest.raises(TypeError, match="JSON has no"):
        Contract(shape)


def test_a_list_of_very_many_wrong_values_is_told_by_its_number() -> None:
    assert _wrong(Many, {"numbers": [""] * 5000}) == (
        "bad_value",
        "5000 values in it break the contract",
    )


def test_a_long_name_of_a_field_is_cut() -> None:
    breach = Contract(dict[str, int]).breach({"k" * 100_000: "x"})
    assert breach is not None
    assert len(breach.detail) < 200
