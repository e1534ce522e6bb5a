"""What pages are made of: tables, forms, fields, and how a value is written. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from desk.web.html import Html, tag
from desk.web.rights import for_who_may, needed

_LABELS = {
    "entity_id": "device",
    "hook": "webhook",
    "parked_at": "parked",
    "times": "times parked",
    "times_most": "most often",
    "per_second": "a second",
    "begun_at": "begun",
    "seq": "no.",
}


def table(name: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Html:
    """It may be wider than the window: then it scrolls, and the keyboard gets there."""
    if not rows:
        return tag("p", "None.", class_="quiet")
    numbers = {one for one in columns if isinstance(rows[0].get(one), int | float)}
    heads = (
        tag("th", label(one), scope="col", class_="number" if one in numbers else None)
        for one in columns
    )
    return tag(
        "div",
        tag(
            "table",
            tag("thead", tag("tr", *heads)),
            tag("tbody", *(tag("tr", *(_cell(row.get(one)) for one in columns)) for row in rows)),
        ),
        class_="wide",
        role="region",
        aria_label=name,
        tabindex=0,
    )


def _cell(value: object) -> Html:
    if isinstance(value, Html):
        return tag("td", value)
    is_number = isinstance(value, int | float)
    return tag("td", text(value), class_="number" if is_number else None)


def facts(names: Sequence[str], found: Mapping[str, Any]) -> Html:
    pairs = ((tag("dt", label(name)), tag("dd", text(found[name]))) for name in names)
    return tag("dl", *pairs)


def form(action: str, csrf: str, *content: object, is_for_all: bool = False) -> Html:
    """Whoever may not send it does not see it. `is_for_all`: it has more than what sends it."""
    token = tag("input", type="hidden", name="csrf", value=csrf)
    needs = None if is_for_all else for_who_may(needed("POST", urlsplit(action).path))
    return tag("form", token, *content, method="post", action=action, class_=needs)


def field(name: str, label: str, **attributes: object) -> Html:
    return tag("label", label, tag("input", name=name, **attributes))


def choice(name: str, label: str, options: Sequence[str], chosen: str) -> Html:
    choices = (tag("option", one, value=one, selected=one == chosen) for one in options)
    return tag("label", label, tag("select", *choices, name=name))


def label(name: str) -> str:
    return _LABELS.get(name, name).replace("_", " ")


def text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=str).decode()
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def as_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
