"""A curve of straight lines between points, as a sensor's data sheet has it."""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

from shared.model import Rejected

Outside = Literal["refuse", "clamp", "extrapolate"]


@dataclass(frozen=True)
class Piecewise:
    """`points`: raw value and measured value, two or more, by growing raw values. ValueError where
    they are not: a row of master data that says so is not to be used."""

    points: Sequence[Sequence[float]]
    # of raw values before the first point and behind the last: the payload is parked, the nearest
    # point counts, or the first or last line goes on
    outside: Outside = "refuse"
    _raw: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.points) < 2 or any(len(point) != 2 for point in self.points):
            raise ValueError("a curve has two points or more, each of a raw and a measured value")
        if not all(isfinite(number) for point in self.points for number in point):
            raise ValueError("a curve's points are finite numbers")
        raw = tuple(point[0] for point in self.points)
        if any(one >= following for one, following in pairwise(raw)):
            raise ValueError("a curve's points stand by growing raw values, each once")
        object.__setattr__(self, "_raw", raw)

    def value(self, raw: Any, name: str = "the value") -> float:
        """`name`: of the field, for who reads why a payload was parked."""
        number = number_of(raw, name)
        first, last = self._raw[0], self._raw[-1]
        if not first <= number <= last:
            if self.outside == "refuse":
                raise Rejected("out_of_range", f"{name}: {raw} is not within {first} and {last}")
            if self.outside == "clamp":
                number = min(max(number, first), last)
        # the line that it is on; outside, the nearest one
        at = min(max(bisect_right(self._raw, number), 1), len(self._raw) - 1)
        (x0, y0), (x1, y1) = self.points[at - 1], self.points[at]
        if number == x1:
            return float(y1)
        return finite(y0 + (number - x0) * ((y1 - y0) / (x1 - x0)), name)


def number_of(raw: Any, name: str) -> int | float:
    # bool is an int to Python, never to a device
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise Rejected("wrong_type", f"{name}: a number is expected, not {type(raw).__name__}")
    with suppress(OverflowError):  # a whole number may be too large for any float
        if isfinite(raw):
            return raw
    raise Rejected("out_of_range", f"{name}: it is no number that can be converted")


def finite(value: float, name: str) -> float:
    if not isfinite(value):
        raise Rejected("out_of_range", f"{name}: it is too large to convert")
    return value
