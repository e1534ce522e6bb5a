"""A page of a view's rows, out of this node's file."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from gateway.view.reader import Keyed, StateView
from gateway.views.selection import Selection
from shared.model import View

_AT_ONCE = 500
# a request may not hold up others: who seeks longer goes on with the next request
_LOOKED_AT_MAX = 5_000
MaySee = Callable[[Mapping[str, Any]], bool]


class Page(NamedTuple):
    rows: list[dict[str, Any]]
    goes_on_after: bytes | None


class CannotReadError(Exception):
    """The file is not there yet, is not all that it will be, or is damaged."""


def page_of(
    source: StateView,
    view: View,
    selection: Selection,
    watermark_ms: float | None,
    may_see: MaySee,
) -> Page:
    rows: list[dict[str, Any]] = []
    last = selection.after
    for looked_at, (key, value) in enumerate(_in_order(source, view, selection)):
        # there is another row, so there is another page
        if len(rows) == selection.limit or looked_at == _LOOKED_AT_MAX:
            return Page(rows, last)
        row = orjson.loads(value)
        if may_see(row) and selection.takes(row, watermark_ms):
            rows.append(row)
        last = key
    return Page(rows, None)


def _in_order(source: StateView, view: View, selection: Selection) -> Iterator[Keyed]:
    for begin, end in selection.ranges(view):
        after = max(begin, selection.after)
        while (found := source.between(view.topic, after, end, _AT_ONCE)) != []:
            if found is None:
                raise CannotReadError
            yield from found
            after = found[-1].key
