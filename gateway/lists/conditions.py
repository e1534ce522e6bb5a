"""`where=value > 30 and area = "north"`: conditions of webhooks, joined by `and`. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from gateway.http.problems import Problem
from shared.tables.indexed_fields import FIELD, ID, IndexedStates

CONDITIONS_MAX = 20
_ONE = re.compile(
    rf'\s*({FIELD.pattern})\s*(!=|<=|>=|=|<|>)\s*("(?:[^"\\]|\\.)*"|[^\s"]+)\s*', re.DOTALL
)
_AND = re.compile(r"and(?=\s)")
_EQUAL = "=", "!="
_WHOLE_END = 1 << 63
# what JSON is to stand behind the sign
TOLD_KINDS = {
    "string": "a text, in double quotes",
    "bigint": "a number",
    "double": "a number",
    "boolean": "true or false",
}


class Condition(NamedTuple):
    field: str
    sign: str
    value: Any  # None: there is nothing


def conditions_of(states: IndexedStates, told: Iterable[str]) -> tuple[Condition, ...]:
    """All of which are to hold. Problem says what is wrong."""
    found = [Condition(*one) for text in told for one in _split(text)]
    if len(found) > CONDITIONS_MAX:
        raise _bad(f"where has {len(found)} conditions, {CONDITIONS_MAX} may be")
    return tuple(_checked(states, one) for one in found)


def _split(text: str) -> Iterator[tuple[str, str, Any]]:
    at = 0
    while True:
        one = _ONE.match(text, at)
        if one is None:
            raise _no_condition(text)
        field, sign, value = one.groups()
        yield field, sign, _value(text, value)
        at = one.end()
        if at == len(text):
            return
        joined = _AND.match(text, at)
        if joined is None:
            raise _no_condition(text)
        at = joined.end()


def _value(text: str, told: str) -> Any:
    try:
        return orjson.loads(told)
    except orjson.JSONDecodeError:
        raise _bad(
            f"where={text[:200]}: {told[:100]} is no value of JSON; a text needs double quotes"
        ) from None


def _checked(states: IndexedStates, one: Condition) -> Condition:
    kind = "string" if one.field == ID else states.kind(one.field)
    if kind is None:
        raise not_indexed(states, one.field)
    if one.value is None and one.field != ID:
        if one.sign not in _EQUAL:
            raise _bad(f"where: {one.field} {one.sign} null: what is nothing is only = or != null")
        return one
    is_right = {
        "string": isinstance(one.value, str),
        "boolean": isinstance(one.value, bool) and one.sign in _EQUAL,
    }.get(kind, isinstance(one.value, int | float) and not isinstance(one.value, bool))
    if not is_right:
        signs = " by = or !=" if kind == "boolean" else ""
        raise _bad(f"where: {one.field} is compared with {TOLD_KINDS[kind]}{signs}")
    if isinstance(one.value, int) and abs(one.value) >= _WHOLE_END:
        return one._replace(value=float(one.value))  # no whole number of a state is so large
    return one


def not_indexed(states: IndexedStates, field: str) -> Problem:
    known = ", ".join((ID, *(one.name for one in states.fields)))
    return Problem(
        400,
        "not_indexed",
        f"{field} is no indexed field of {states.entity}; it is found and sorted by: {known}",
    )


def _no_condition(text: str) -> Problem:
    return _bad(
        f"where={text[:200]}: write an indexed field, one of = != < <= > >=, and a value as JSON, "
        'such as  value > 30  or  value > 30 and area = "north"'
    )


def _bad(detail: str) -> Problem:
    return Problem(400, "bad_condition", detail)
