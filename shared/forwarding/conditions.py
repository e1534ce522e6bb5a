"""Conditions on the fields of an event, which a hook may name: `value > 30`, `site.name = "x"`.
Pure."""

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson

_FORM = re.compile(r"\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*(!=|<=|>=|=|<|>)\s*(.+?)\s*")
_EQUAL: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "!=": operator.ne}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABSENT = object()


class Condition(NamedTuple):
    path: tuple[str, ...]
    sign: str
    value: Any

    def holds(self, data: Mapping[str, Any]) -> bool:
        """Whether it holds. Where a field is absent, or of another kind, nothing holds but that it
        differs."""
        found = field(data, self.path)
        if self.sign in _EQUAL:
            is_same_kind = isinstance(found, bool) == isinstance(self.value, bool)
            equals = found is not _ABSENT and is_same_kind and found == self.value
            return equals == (self.sign == "=")
        kinds = (str,) if isinstance(self.value, str) else (int, float)
        if not isinstance(found, kinds) or isinstance(found, bool):
            return False
        return _ORDER[self.sign](found, self.value)


@cache
def condition(text: str) -> Condition:
    """ValueError where it is none."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(
            f"{text!r} is no condition: write a field of the event's data, one of "
            '= != < <= > >=, and a value as JSON, such as  value > 30  or  site = "north"'
        )
    path, sign, told = form.groups()
    try:
        value = orjson.loads(told)
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"{text!r}: {told} is no value of JSON; a text needs double quotes"
        ) from error
    if sign not in _EQUAL and (isinstance(value, bool) or not isinstance(value, str | int | float)):
        raise ValueError(f"{text!r}: {sign} compares numbers or texts, and {told} is neither")
    return Condition(tuple(path.split(".")), sign, value)


def field(data: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(data, Mapping) or name not in data:
            return _ABSENT
        data = data[name]
    return data


def chosen(data: Mapping[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """Those of its fields that are named and there, each in its place."""
    found: dict[str, Any] = {}
    for path in paths:
        parts = tuple(path.split("."))
        value = field(data, parts)
        if value is _ABSENT:
            continue
        place = found
        for name in parts[:-1]:
            place = place.setdefault(name, {})
        place[parts[-1]] = value
    return found
