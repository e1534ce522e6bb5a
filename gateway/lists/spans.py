"""Conditions as what an index can answer: of each field the span of its values that may be, and
what is left to look at state by state. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from gateway.lists.conditions import Condition


class Bound(NamedTuple):
    value: Any
    is_in: bool


class Span(NamedTuple):
    """Values between, or nothing: `= null`."""

    low: Bound | None = None
    high: Bound | None = None
    is_nothing: bool = False
    is_something: bool = False

    @property
    def is_narrow(self) -> bool:
        """An index has what is in it in one place, without what is nothing."""
        return self.is_nothing or self.low is not None or self.high is not None

    @property
    def is_one_value(self) -> bool:
        return self.is_nothing or (self.low is not None and self.low == self.high)

    @property
    def is_empty(self) -> bool:
        if self.is_nothing and self.is_something:
            return True
        if self.low is None or self.high is None:
            return False
        is_in = self.low.is_in and self.high.is_in
        return bool(self.low.value > self.high.value) or (
            self.low.value == self.high.value and not is_in
        )

    def within(self, other: "Span") -> "Span":
        lows = [bound for bound in (self.low, other.low) if bound]
        highs = [bound for bound in (self.high, other.high) if bound]
        return Span(
            max(lows, key=lambda bound: (bound.value, not bound.is_in), default=None),
            min(highs, key=lambda bound: (bound.value, bound.is_in), default=None),
            self.is_nothing or other.is_nothing,
            self.is_something or other.is_something,
        )


class Spans(NamedTuple):
    by_field: dict[str, Span]
    unlike: tuple[Condition, ...]  # those with !=, for which no index is of use

    @property
    def is_empty(self) -> bool:
        return any(span.is_empty for span in self.by_field.values())


def spans_of(conditions: Iterable[Condition]) -> Spans:
    by_field: dict[str, Span] = {}
    unlike = []
    for one in conditions:
        if one.sign == "!=" and one.value is not None:
            unlike.append(one)
        else:
            by_field[one.field] = by_field.get(one.field, Span()).within(_span(one))
    return Spans(by_field, tuple(unlike))


def _span(one: Condition) -> Span:
    if one.value is None:
        return Span(is_nothing=one.sign == "=", is_something=one.sign == "!=")
    bound = Bound(one.value, "=" in one.sign)
    return Span(
        bound if one.sign in ("=", ">", ">=") else None,
        bound if one.sign in ("=", "<", "<=") else None,
        is_something=True,
    )
