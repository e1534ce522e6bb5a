"""The SQL of a list. Each statement names the index that it goes along: left to itself, SQLite may
take another one, and look at all states. Pure."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.lists.list_request import Asked, Place
from gateway.lists.spans import Bound, Span, Spans
from gateway.state_view.state_index import column_of, table_of
from shared.ids import full_id
from shared.tables.indexed_fields import ID

_KEY = "key"


class Query(NamedTuple):
    sql: str
    values: tuple[Any, ...]


Part = Callable[[Place | None], Query]  # what is in it behind a place


class _Terms:
    """Conditions in SQL, all of which are to hold."""

    def __init__(self) -> None:
        self.sql: list[str] = []
        self.values: list[Any] = []

    def add(self, sql: str, *values: Any) -> None:
        self.sql.append(sql)
        self.values += values

    def told(self) -> str:
        return " AND ".join(self.sql) or "1"


class Queries:
    def __init__(self, asked: Asked, spans: Spans) -> None:
        self._asked = asked
        self._spans = spans
        self._table = table_of(asked.states)
        self._sorted_by = self._column(asked.sort)
        direction = "DESC" if asked.descends else "ASC"
        # named twice, the key would be sorted once more
        columns = [self._sorted_by] if asked.sort == ID else [self._sorted_by, _KEY]
        self._order = ", ".join(f"{column} {direction}" for column in columns)

    def count(self, field: str, at_most: int) -> Query:
        """How many states the span of this field has."""
        terms = self._terms_of(field)
        return Query(
            f"SELECT count(*) FROM (SELECT 1 FROM {self._along(field)} WHERE {terms.told()} "
            "LIMIT ?)",
            (*terms.values, at_most),
        )

    def gathered(self, field: str, place: Place | None) -> Query:
        """All states in the span of this field, sorted: where they are few."""
        terms, column = self._terms_of(field), self._sorted_by
        self._add_rest(terms, {field})
        if place is not None:
            self._add_behind(terms, place)
        return Query(
            f"SELECT {self._place}, key, 1 FROM {self._along(field)} WHERE {terms.told()} "
            f"ORDER BY {column} IS NULL, {self._order} LIMIT ?",
            tuple(terms.values),
        )

    def parts(self, place: Place | None, among: str | None) -> list[Part]:
        """The parts of the order behind this place: first what has a value, then what has none.
        Each state is told with whether it is one that is asked for. `among`: in the order of ids, a
        field that is to have one value."""
        if self._asked.sort == ID:
            return [lambda place: self._by_id(place, among)]
        span = self._spans.by_field.get(self._asked.sort, Span())
        parts: list[Part] = []
        if not span.is_nothing and (place is None or place.value is not None):
            parts.append(lambda place: self._values(span, place))
        if not span.is_something:
            parts.append(self._nothing)
        return parts

    def _by_id(self, place: Place | None, among: str | None) -> Query:
        terms = _Terms() if among is None else self._terms_of(among)
        if among is None:
            terms.add("tenant = ?", self._asked.tenant)
        span = self._spans.by_field.get(ID, Span())
        low, high = (bound and self._bound(ID, bound) for bound in (span.low, span.high))
        behind = place and Bound(place.key, is_in=False)
        if self._asked.descends:
            span = Span(low, high).within(Span(high=behind))
        else:
            span = Span(low, high).within(Span(low=behind))
        _add_bounds(terms, _KEY, span.low, span.high)
        return self._part(ID if among is None else among, terms, {ID, among or ID})

    def _values(self, span: Span, place: Place | None) -> Query:
        terms = _Terms()
        terms.add("tenant = ?", self._asked.tenant)
        # what is nothing stands before all values
        least = "" if self._asked.states.kind(self._asked.sort) == "string" else float("-inf")
        low: Bound | None = span.low or Bound(least, is_in=True)
        high = span.high
        if place is not None and _is_within(place.value, Span(low, high)):
            sign = "<" if self._asked.descends else ">"
            terms.add(f"({self._sorted_by}, key) {sign} (?, ?)", *place)
            # two bounds on one side, and SQLite may begin at the other one
            low, high = (low, None) if self._asked.descends else (None, high)
        _add_bounds(terms, self._sorted_by, low, high)
        return self._part(self._asked.sort, terms, {self._asked.sort})

    def _nothing(self, place: Place | None) -> Query:
        terms = _Terms()
        terms.add(f"tenant = ? AND {self._sorted_by} IS NULL", self._asked.tenant)
        if place is not None and place.value is None:
            terms.add(f"key {'<' if self._asked.descends else '>'} ?", place.key)
        return self._part(self._asked.sort, terms, {self._asked.sort})

    def _part(self, along: str, terms: _Terms, without: set[str]) -> Query:
        rest = _Terms()
        self._add_rest(rest, without)
        return Query(
            f"SELECT {self._place}, key, {rest.told()} FROM {self._along(along)} "
            f"WHERE {terms.told()} ORDER BY {self._order} LIMIT ?",
            (*rest.values, *terms.values),
        )

    @property
    def _place(self) -> str:
        return "NULL" if self._asked.sort == ID else self._sorted_by

    def _column(self, field: str) -> str:
        return _KEY if field == ID else column_of(self._asked.states, field)

    def _along(self, field: str) -> str:
        return f"{self._table} INDEXED BY {self._table}_{self._column(field)}"

    def _terms_of(self, field: str) -> _Terms:
        terms = _Terms()
        terms.add("tenant = ?", self._asked.tenant)
        self._add_span(terms, field)
        return terms

    def _add_rest(self, terms: _Terms, without: set[str]) -> None:
        for field in self._spans.by_field:
            if field not in without:
                self._add_span(terms, field)
        for one in self._spans.unlike:
            value = self._bound(one.field, Bound(one.value, is_in=False)).value
            terms.add(f"{self._column(one.field)} IS NOT ?", value)

    def _add_span(self, terms: _Terms, field: str) -> None:
        span, column = self._spans.by_field[field], self._column(field)
        if span.is_nothing:
            terms.add(f"{column} IS NULL")
            return
        low, high = (bound and self._bound(field, bound) for bound in (span.low, span.high))
        if low is not None and low == high:
            terms.add(f"{column} = ?", low.value)
            return
        _add_bounds(terms, column, low, high)
        if low is high is None:
            terms.add(f"{column} IS NOT NULL")

    def _add_behind(self, terms: _Terms, place: Place) -> None:
        sign, column = "<" if self._asked.descends else ">", self._sorted_by
        if self._asked.sort == ID:
            terms.add(f"key {sign} ?", place.key)
        elif place.value is None:
            terms.add(f"{column} IS NULL AND key {sign} ?", place.key)
        else:
            terms.add(f"(({column}, key) {sign} (?, ?) OR {column} IS NULL)", *place)

    def _bound(self, field: str, bound: Bound) -> Bound:
        if field != ID:
            return bound
        return bound._replace(value=full_id(self._asked.tenant, bound.value).encode())


def _is_within(value: Any, span: Span) -> bool:
    one = Bound(value, is_in=True)
    return not span.within(Span(one, one)).is_empty


def _add_bounds(terms: _Terms, column: str, low: Bound | None, high: Bound | None) -> None:
    if low is not None:
        terms.add(f"{column} {'>=' if low.is_in else '>'} ?", low.value)
    if high is not None:
        terms.add(f"{column} {'<=' if high.is_in else '<'} ?", high.value)
