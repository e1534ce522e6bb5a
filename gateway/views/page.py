"""A page of a view's rows, out of this node's file."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from gateway.view.reader import Keyed, StateView
from gateway.views.wish import Wish
from shared.folding.snapshot import META
from shared.model import View

_AT_ONCE = 500
# a request may not hold up others: who seeks longer goes on with the next request
_LOOKED_AT_MAX = 5_000
May = Callable[[Mapping[str, Any]], bool]


class Page(NamedTuple):
    rows: list[dict[str, Any]]
    goes_on_after: bytes | None


def page_of(
    source: StateView, view: View, wish: Wish, watermark_ms: float | None, may_see: May
) -> Page:
    rows: list[dict[str, Any]] = []
    last = wish.after
    for looked_at, (key, value) in enumerate(_in_order(source, view, wish)):
        # one is left, so there is a next page
        if len(rows) == wish.limit or looked_at == _LOOKED_AT_MAX:
            return Page(rows, last)
        row = orjson.loads(value)
        version = row.pop(META)["version"]
        if may_see(row) and wish.takes(row, watermark_ms):
            rows.append(row | {META: {"version": version}})
        last = key
    return Page(rows, None)


def _in_order(source: StateView, view: View, wish: Wish) -> Iterator[Keyed]:
    for begin, end in wish.ranges(view):
        after = max(begin, wish.after)
        while found := source.between(view.topic, after, end, _AT_ONCE):
            yield from found
            after = found[-1].key
