"""Another order of rows than that of their keys, and the first rows in it. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from gateway.http.problems import Problem
from shared.tables.view_rows import COLUMN, WINDOW

Row = dict[str, Any]
ORDER_BEGINS = b"["  # what is next in an order; a key begins otherwise
_NUMBER, _TEXT = 0, 1  # a number that JSON does not have, such as NaN, comes as text


class Place(NamedTuple):
    """The place of a row in an order."""

    rank: tuple[bool, int, Any]
    value: Any
    key: bytes


class Order(NamedTuple):
    """An order by a column: rows that have nothing there come last, equal ones by their keys."""

    column: str
    descends: bool

    @property
    def told(self) -> str:
        return f"-{self.column}" if self.descends else self.column

    def place_of(self, row: Mapping[str, Any], key: bytes) -> Place:
        value = row.get(self.column)
        if self.column == WINDOW and isinstance(value, dict):
            value = f"{value['start']} {value['end']}"
        if isinstance(value, dict | list):
            raise Problem(
                400,
                "bad_parameter",
                f"{self.column} has several values in a row: sort by a column that has one",
            )
        return self._at(value, key)

    def _at(self, value: Any, key: bytes) -> Place:
        kind = _TEXT if isinstance(value, str) else _NUMBER
        known = 0 if value is None else value
        return Place(((value is None) != self.descends, kind, known), value, key)

    def is_before(self, place: Place, other: Place) -> bool:
        if place.rank == other.rank:
            return place.key < other.key
        return (place.rank > other.rank) == self.descends

    def token_of(self, place: Place) -> bytes:
        return orjson.dumps([self.told, place.value, place.key.decode()])

    def read(self, token: bytes) -> Place | None:
        """None where there is none; Problem where it is one of another order."""
        if not token:
            return None
        try:
            told, value, key = orjson.loads(token)
            if told != self.told or isinstance(value, dict | list):
                raise ValueError(told)
            return self._at(value, key.encode())
        except (ValueError, TypeError, AttributeError):
            raise of_another_order() from None


class First:
    """So many rows at most, the first ones of all that were put, in the order of their keys."""

    def __init__(self, order: Order, count: int) -> None:
        self._order = order
        self._count = count
        self._kept: list[tuple[Place, Row]] = []
        self._bar: Place | None = None  # what is not before it is not among the first

    def put(self, place: Place, row: Row) -> None:
        if self._bar is not None and not self._order.is_before(place, self._bar):
            return
        self._kept.append((place, row))
        if len(self._kept) >= 2 * self._count:
            self._cut()

    def rows(self) -> list[tuple[Place, Row]]:
        self._cut()
        return self._kept

    def _cut(self) -> None:
        self._kept.sort(key=lambda one: one[0].rank, reverse=self._order.descends)
        del self._kept[self._count :]
        if len(self._kept) == self._count:
            self._bar = self._kept[-1][0]


def order_of(told: str) -> Order:
    column = told.removeprefix("-")
    if not COLUMN.fullmatch(column):
        raise Problem(
            400,
            "bad_parameter",
            "sort is one column, such as sort=highest, or sort=-highest for the highest first",
        )
    return Order(column, told.startswith("-"))


def of_another_order() -> Problem:
    return Problem(
        400, "bad_parameter", "next is of another order: begin anew without it, or with its sort"
    )
