from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import contract_of
from shared.conversions import CodeWords, Conversion, Piecewise, converted
from shared.model import Rejected

MODES = {"0": "idle", "1": "running"}
CURVE = ((0, 0), (100, 50), (200, 60))


def refused(make: Any) -> str:
    with pytest.raises(Rejected) as error:
        make()
    return str(error.value)


def test_a_code_stands_for_its_word_whether_it_is_a_number_or_a_text() -> None:
    assert [CodeWords(MODES).word(code) for code in (0, "0", 1)] == ["idle", "idle", "running"]


def test_an_unknown_code_is_refused_or_goes_on_as_it_is() -> None:
    said = refused(lambda: CodeWords(MODES).word(7, "mode"))
    assert said == "unknown_code: mode: '7' is none of 0, 1"
    assert CodeWords(MODES, unknown="pass").word(7) == "7"


@pytest.mark.parametrize("code", [True, 1.0, None, [0]])
def test_what_is_no_code_is_refused_in_any_case(code: Any) -> None:
    for unknown in ("refuse", "pass"):
        assert "wrong_type" in refused(lambda u=unknown: CodeWords(MODES, u).word(code))


@pytest.mark.parametrize(
    ("raw", "value"), [(0, 0), (50, 25), (100, 50), (150, 55), (200, 60), (12.5, 6.25)]
)
def test_between_two_points_a_value_is_on_their_line(raw: float, value: float) -> None:
    assert Piecewise(CURVE).value(raw) == value


def test_outside_the_points_it_is_refused_clamped_or_extrapolated() -> None:
    said = refused(lambda: Piecewise(CURVE).value(201, "level"))
    assert said == "out_of_range: level: 201 is not within 0 and 200"
    clamped, goes_on = Piecewise(CURVE, "clamp"), Piecewise(CURVE, "extrapolate")
    assert [clamped.value(raw) for raw in (-10, 300)] == [0, 60]
    assert [goes_on.value(raw) for raw in (-10, 300)] == [-5, 70]


@pytest.mark.parametrize("raw", [True, "5", None, float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_refused(raw: Any) -> None:
    for outside in ("refuse", "clamp", "extrapolate"):
        refused(lambda o=outside: Piecewise(CURVE, o).value(raw))


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([(0, 0)], "two points"),
        ([(0, 0), (1,)], "two points"),
        ([(0, 0), (0, 1)], "growing"),
        ([(1, 0), (0, 1)], "growing"),
        ([(0, 0), (1, float("nan"))], "finite"),
    ],
)
def test_points_that_make_no_curve_are_refused(points: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Piecewise(points)


_NUMBERS = st.integers(-1_000_000, 1_000_000)
_CURVES = st.lists(st.tuples(_NUMBERS, _NUMBERS), min_size=2, max_size=8, unique_by=lambda p: p[0])


@given(_CURVES.map(sorted), st.floats(0, 1))
def test_a_curve_goes_through_its_points_and_stays_between_neighbours(
    points: list[tuple[int, int]], share: float
) -> None:
    curve = Piecewise(points)
    assert [curve.value(raw) for raw, _ in points] == [value for _, value in points]
    raw = points[0][0] + share * (points[-1][0] - points[0][0])
    at = min(max(bisect_left([x for x, _ in points], raw), 1), len(points) - 1)
    low, high = sorted((points[at - 1][1], points[at][1]))
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert low - slack <= curve.value(raw) <= high + slack


MODEL: dict[str, Conversion] = {
    "t": {"to": "celsius", "scale": 0.5, "offset": -10},
    "lvl": {"to": "litres", "points": [[0, 0], [1023, 500]], "outside": "clamp"},
    "m": {"to": "mode", "words": MODES, "optional": True},
    "sn": {"to": "serial"},
}


def test_a_payload_of_several_fields_is_converted_as_its_model_says() -> None:
    assert converted({"t": 60, "lvl": 2000, "m": 1, "sn": "x", "more": 5}, MODEL) == {
        "celsius": 20,
        "litres": 500,
        "mode": "running",
        "serial": "x",
    }


def test_a_field_that_is_absent_is_refused_unless_it_may_be() -> None:
    assert "mode" not in converted({"t": 60, "lvl": 0, "sn": 1}, MODEL)
    assert "field_missing: lvl" in refused(lambda: converted({"t": 60, "sn": 1}, MODEL))
    assert "out_of_range: t" in refused(lambda: converted({"t": 1e308 * 10}, MODEL))


def test_a_conversion_is_a_contract_that_rows_may_have() -> None:
    contract = contract_of(Conversion)
    assert all(contract.breach(how) is None for how in MODEL.values())
    breach = contract.breach({"to": "x", "words": {"0": 1}})
    assert breach is not None
    assert breach.place == "words.0"
    assert contract.breach({"scale": 1}) is not None


def test_the_tank_of_the_walk_through() -> None:
    model: dict[str, Conversion] = {
        "lvl": {"to": "litres", "points": [[0, 0], [600, 250], [1023, 300]], "outside": "clamp"},
        "st": {"to": "state", "words": {"0": "idle", "1": "filling"}},
        "t": {"to": "celsius", "scale": 0.1, "offset": -40, "optional": True},
    }
    level = converted({"lvl": 512, "st": 1}, model)
    assert level == {"litres": pytest.approx(213.333, abs=0.001), "state": "filling"}
