"""Which of a view's rows a request asks for, from where on, and how many. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from gateway.http.problems import Problem
from gateway.pages.parameters import DESCRIBED_LIMIT, WHOLE, limit_of, next_of
from gateway.streams.frames import EVENT_STREAM
from gateway.views.order import ORDER_BEGINS, Order, of_another_order, order_of
from shared.ids import NO_TENANT
from shared.model import View
from shared.tables.view_rows import COLUMN, PARAMETERS, TENANT, WINDOW
from shared.timestamps import from_rfc3339

_OF_PAGES = "closed", "limit", "next", "sort"
# behind every key that begins as it does
END = b"\xff"


class Selection(NamedTuple):
    by_column: tuple[tuple[str, str], ...]  # of its key
    from_ms: int | None
    until_ms: int | None
    closed: bool | None
    after: bytes
    limit: int
    order: Order | None  # else that of the keys
    from_now: bool = False  # changes without what there is
    tenant: str | None = None  # None: rows of all

    def ranges(self, view: View) -> list[tuple[bytes, bytes]]:
        """Ranges of keys, which are JSON, without what cannot be in them: where the first column of
        the key is named, its value may be text, or something else."""
        first = view.key[0]
        value = dict(self.by_column).get(first)
        if value is None:
            return [(b"", END)]
        as_json = [orjson.dumps(value)]
        if value and not value.startswith('"'):
            as_json.append(value.encode())
        begins = sorted(b"{%s:%s" % (orjson.dumps(first), one) for one in as_json)
        return [(begin, begin + END) for begin in begins]

    def within(self, tenant: str) -> "Selection":
        columns = {**dict(self.by_column), TENANT: tenant or "null"}
        return self._replace(by_column=(*columns.items(),), tenant=tenant)

    def takes(self, row: Mapping[str, Any], watermark_ms: float | None) -> bool:
        # another look than at the text of the key: nothing else keeps tenants apart
        if self.tenant is not None and (row.get(TENANT) or NO_TENANT) != self.tenant:
            return False
        if any(as_text(row.get(name)) != its for name, its in self.by_column):
            return False
        window = row.get(WINDOW)
        if window is None:
            return self.from_ms is self.until_ms is self.closed is None
        start_ms, end_ms = from_rfc3339(window["start"]), from_rfc3339(window["end"])
        return (
            (self.from_ms is None or end_ms > self.from_ms)
            and (self.until_ms is None or start_ms < self.until_ms)
            and (self.closed is None or is_closed(row, watermark_ms) == self.closed)
        )


def is_closed(row: Mapping[str, Any], watermark_ms: float | None) -> bool:
    """No event can change it any more."""
    window = row.get(WINDOW)
    if window is None or watermark_ms is None:
        return False
    return from_rfc3339(window["end"]) <= watermark_ms


def as_text(value: Any) -> str:
    """As a parameter of a request says it."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def selection_of(view: View, parameters: Mapping[str, str]) -> Selection:
    """Raises Problem, naming the parameters that there are, where one is unknown or unreadable."""
    columns = [name for name in view.key if name != WINDOW]
    known = *columns, *PARAMETERS
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise Problem(
            400,
            "unknown_parameter",
            f"{unknown[0]} is no parameter here: rows can be asked for by {', '.join(known)}",
        )
    order = order_of(parameters["sort"]) if "sort" in parameters else None
    after = next_of(parameters)
    if order is None and after.startswith(ORDER_BEGINS):
        raise of_another_order()
    return Selection(
        tuple((name, its) for name, its in parameters.items() if name in columns),
        _time(parameters, "from"),
        _time(parameters, "until"),
        _truth(parameters, "closed"),
        after,
        limit_of(parameters),
        order,
        parameters.get("from_now") == "" or bool(_truth(parameters, "from_now")),
    )


def refuse_what_is_of_pages(parameters: Mapping[str, str]) -> None:
    for name in _OF_PAGES:
        if name in parameters:
            why = "a row closes without a change" if name == "closed" else "all changes come"
            raise Problem(400, "bad_parameter", f"{name} is of pages, not of streams: {why}")


def only_of_changes() -> Problem:
    return Problem(
        400, "bad_parameter", f"from_now is of streams: ask with `Accept: {EVENT_STREAM}`, too"
    )


def described_parameters(views: Iterable[View]) -> list[dict[str, Any]]:
    """As OpenAPI has them: they are other ones for each view."""
    keys = dict.fromkeys(name for view in views for name in view.key if name != WINDOW)
    kinds: dict[str, dict[str, Any]] = {
        **{name: {"type": "string"} for name in keys},
        **{name: {"type": "string", "format": "date-time"} for name in ("from", "until")},
        "closed": {"type": "boolean"},
        "limit": DESCRIBED_LIMIT,
        "next": {"type": "string"},
        "from_now": {"type": "boolean"},
        "version": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
        "sort": {"type": "string", "pattern": f"^-?{COLUMN.pattern}$"},
    }
    told = {
        **dict.fromkeys(keys, "where its key has such a column"),
        "from_now": "Of a stream: only changes, without the rows that there are.",
        "version": "One that is made beside the view that is shown, to compare it.",
        "sort": "A column, and - before it for the highest first; else rows are in the order of "
        "their keys.",
    }
    asked = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": kind,
            **({"description": told[name]} if name in told else {}),
        }
        for name, kind in kinds.items()
    ]
    last = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    return [*asked, {**last, "description": "Of a stream: the last `id` that was seen."}]


def _time(parameters: Mapping[str, str], name: str) -> int | None:
    if name not in parameters:
        return None
    try:
        return from_rfc3339(parameters[name])
    except (ValueError, OverflowError) as error:
        raise Problem(
            400, "bad_parameter", f"{name} is no time such as 2026-01-31T12:00:00Z: {error}"
        ) from None


def _truth(parameters: Mapping[str, str], name: str) -> bool | None:
    if name not in parameters:
        return None
    if parameters[name] not in ("true", "false"):
        raise Problem(400, "bad_parameter", f"{name} is true or false")
    return parameters[name] == "true"


def version_of(parameters: Mapping[str, str]) -> int | None:
    """The version of the view itself; None: the one that is shown."""
    told = parameters.get("version")
    if told is None:
        return None
    if not WHOLE.fullmatch(told) or int(told) < 1:
        raise Problem(400, "bad_parameter", "version is a whole number from 1 on")
    return int(told)
