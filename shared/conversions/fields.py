"""A payload with several fields, converted as its model's row of master data says."""

from collections.abc import Mapping
from typing import Any, Literal, Required

from typing_extensions import TypedDict

from shared.conversions.code_words import CodeWords
from shared.conversions.piecewise import Piecewise, finite, number_of
from shared.model import Fields, Rejected


class Conversion(TypedDict, total=False):
    """How a field is converted: for the contract of a table's rows, `fields: dict[str,
    Conversion]`. With neither words nor points, scale and offset count; with nothing but `to`, the
    value is taken as it is."""

    to: Required[str]  # the field that it becomes
    optional: bool  # a payload may leave it out
    scale: float
    offset: float
    points: list[list[float]]  # raw value, measured value
    outside: Literal["refuse", "clamp", "extrapolate"]
    words: dict[str, str]
    unknown: Literal["refuse", "pass"]


def converted(payload: Fields, conversions: Mapping[str, Conversion]) -> Fields:
    """The converted fields, by the names that they become. Rejected where one is missing or cannot
    be converted."""
    made: Fields = {}
    for name, how in conversions.items():
        if name in payload:
            made[how["to"]] = _value(payload[name], how, name)
        elif not how.get("optional", False):
            raise Rejected("field_missing", f"{name}: this model sends it, the payload does not")
    return made


def _value(raw: Any, how: Conversion, name: str) -> Any:
    if "words" in how:
        return CodeWords(how["words"], how.get("unknown", "refuse")).word(raw, name)
    if "points" in how:
        return Piecewise(how["points"], how.get("outside", "refuse")).value(raw, name)
    if "scale" in how or "offset" in how:
        number = number_of(raw, name)
        return finite(number * how.get("scale", 1.0) + how.get("offset", 0.0), name)
    return raw
