"""A page of a view's rows, out of this node's file."""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from gateway.http.problems import Problem
from gateway.pages.parameters import token_of
from gateway.pages.turns import Turns
from gateway.state_view.reader import Keyed, StateView
from gateway.views.order import First, Order
from gateway.views.selection import END, Selection
from shared.folding.snapshot import META
from shared.model import View

# a request may not hold up others: so many rows, then they have the loop
_AT_ONCE = 100
# who seeks longer goes on with the next request
_LOOKED_AT_MAX = 5_000


class Page(NamedTuple):
    rows: list[dict[str, Any]]
    next: str | None


class CannotReadError(Exception):
    """The file is not there yet, is not all that it will be, or is damaged."""


async def page_of(
    source: StateView,
    view: View,
    selection: Selection,
    watermark_ms: float | None,
) -> Page:
    rows: list[dict[str, Any]] = []
    last = selection.after
    looked_at = 0
    for some in _in_order(source, view, selection, last):
        for key, value in some:
            # there is another row, so there is another page
            if len(rows) == selection.limit or looked_at == _LOOKED_AT_MAX:
                return Page(rows, token_of(last))
            row = orjson.loads(value)
            if selection.takes(row, watermark_ms):
                rows.append(row)
            last = key
            looked_at += 1
        await asyncio.sleep(0)
    return Page(rows, None)


async def sorted_page_of(
    source: StateView,
    view: View,
    selection: Selection,
    order: Order,
    watermark_ms: float | None,
    turns: Turns,
) -> Page:
    _refuse_unknown(source, view, order)
    begin = order.read(selection.after)
    first = First(order, selection.limit + 1)
    with turns.one() as turn:
        for some in _in_order(source, view, selection, b""):
            async with turn:
                for key, value in some:
                    row = orjson.loads(value)
                    if selection.takes(row, watermark_ms):
                        place = order.place_of(row, key)
                        if begin is None or order.is_before(begin, place):
                            first.put(place, row)
                await asyncio.sleep(0)
    found = first.rows()
    rows = [row for _, row in found[: selection.limit]]
    if len(found) <= selection.limit:
        return Page(rows, None)
    return Page(rows, token_of(order.token_of(found[selection.limit - 1][0])))


def _refuse_unknown(source: StateView, view: View, order: Order) -> None:
    """Each row has all columns of its view; where there is none, there is nothing to sort."""
    found = source.between(view.topic, b"", END, 1)
    if found is None:
        raise CannotReadError
    columns = [name for one in found for name in orjson.loads(one.value) if name != META]
    if found and order.column not in columns:
        raise Problem(
            400,
            "unknown_column",
            f"{view.name} has no column {order.column} to sort by; it has: {', '.join(columns)}",
        )


def _in_order(
    source: StateView, view: View, selection: Selection, begin: bytes
) -> Iterator[list[Keyed]]:
    for start, end in selection.ranges(view):
        after = max(start, begin)
        while (found := source.between(view.topic, after, end, _AT_ONCE)) != []:
            if found is None:
                raise CannotReadError
            yield found
            after = found[-1].key
