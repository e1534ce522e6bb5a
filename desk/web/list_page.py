"""The pages, from what the desk has found. Pure; forms and links alone, so it works with a keyboard
and without a script."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from desk.letters.redrive_store import Redrive
from desk.letters.selection import GROUPED_BY, STATUSES, Selection
from desk.web.bulk_forms import discard, redrive_all
from desk.web.components import choice, field, form, label, table, text
from desk.web.html import Html, page, tag

_PLACES = {
    "Letters": "/",
    "Redrives": "/redrives",
    "Waiting": "/waiting",
    "Jobs": "/jobs",
    "Entities": "/entities",
    "Webhooks": "/webhooks",
    "Credentials": "/credentials",
    "Audit": "/audit",
}
_COLUMNS = ("cause", "stage", "endpoint", "entity_id", "times", "parked_at", "status", "detail")
_FILTERS = ("cause", "stage", "endpoint", "entity_id", "hook", "since", "until")
_A_TIME = "2026-11-22T04:00:00Z"


def shell(
    title: str, *content: object, csrf: str, signed_in: bool = False, told: str = ""
) -> bytes:
    here = [
        tag("a", name, href=href, aria_current="page" if name == title else None)
        for name, href in _PLACES.items()
    ]
    away = form("/logout", csrf, tag("button", "Sign out")) if signed_in else None
    return page(
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width"),
            tag("title", f"{title} · Headrace"),
            tag("link", rel="stylesheet", href="/style.css"),
        ),
        tag(
            "body",
            tag("a", "Skip to content", class_="skip", href="#content"),
            tag("header", tag("h1", "Headrace"), tag("nav", *here, aria_label="Desk"), away),
            tag(
                "main",
                tag("p", told, class_="told", role="status") if told else None,
                *content,
                id="content",
            ),
        ),
    )


def login(csrf: str, wrong: bool) -> bytes:
    return shell(
        "Sign in",
        tag("h2", "Sign in"),
        form(
            "/login",
            csrf,
            tag(
                "fieldset",
                field(
                    "token",
                    "An operator's token",
                    type="password",
                    required=True,
                    autocomplete="current-password",
                ),
                tag("button", "Sign in", class_="does"),
            ),
        ),
        csrf=csrf,
        told="This token is not an operator's, or no longer." if wrong else "",
    )


def letters(
    selection: Selection,
    by: str,
    groups: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    following: str | None,
    parked: int,
    csrf: str,
) -> list[Html]:
    """`parked`: how many of all that the filters show; the forms for all of them mean these, links
    whatever there is by then."""
    meant, selection = selection, selection._replace(up_to=None)
    return [
        _filters(selection, by),
        tag("h2", f"By {label(by)}"),
        _groups(selection, by, groups),
        tag("h2", "Letters"),
        _list(rows, csrf),
        tag("p", tag("a", "Older letters", href=_link(selection, by, after=following)))
        if following
        else tag("p", "These are all.", class_="quiet"),
        *(
            [
                redrive_all(meant, parked, csrf),
                discard(meant, f"Discard all {text(parked)}", csrf),
            ]
            if parked
            else []
        ),
    ]


def refusals(found: Sequence[Mapping[str, Any]]) -> list[Html]:
    return [tag("h2", "Refused"), table("Refused", ("letter", "refusal"), found)]


def redrives(found: Sequence[Redrive], csrf: str) -> list[Html]:
    counts = ("sent", "letters", "refused", "per_second")
    columns = ("id", "status", "", *counts, "by", "begun_at", "selection", "last refusal")

    def act(one: Redrive) -> Html | None:
        verb = {"running": "stop", "stopped": "resume"}.get(one.status)
        if verb is None:
            return None
        button = tag("button", verb.capitalize(), aria_label=f"{verb} redrive {one.id}")
        return form(f"/redrives/{one.id}/{verb}", csrf, button)

    rows = [
        {**one.told, "selection": text(one.selection), "": act(one), "last refusal": one.refusal}
        for one in found
    ]
    return [tag("h2", "Redrives"), table("Redrives", columns, rows)]


def audit(found: Sequence[Mapping[str, Any]]) -> list[Html]:
    columns = ("seq", "at", "by", "what", "letters", "selection", "reason")
    return [tag("h2", "Audit"), table("Audit", columns, found)]


def _filters(selection: Selection, by: str) -> Html:
    asked = selection._asdict()

    def given(name: str) -> Html:
        example = _A_TIME if name in ("since", "until") else None
        return field(name, label(name).capitalize(), value=asked[name], placeholder=example)

    return tag(
        "form",
        tag(
            "fieldset",
            tag("legend", "Which letters"),
            choice("status", "Status", ("any", *STATUSES), asked["status"] or "any"),
            *map(given, _FILTERS),
            choice("by", "Count by", GROUPED_BY, by),
            tag("button", "Show", class_="does"),
        ),
        method="get",
        action="/",
        role="search",
    )


def _groups(selection: Selection, by: str, groups: Sequence[Mapping[str, Any]]) -> Html:
    rows = [
        {
            **group,
            by: tag("a", text(group[by]), href=_narrowed(selection, by, group[by]))
            if group[by] is not None
            else "-",
        }
        for group in groups
    ]
    columns = (by, "letters", "times_most", "first_parked", "parked_at")
    return table(f"By {label(by)}", columns, rows)


def _list(rows: Sequence[Mapping[str, Any]], csrf: str) -> Html:
    def chosen(row: Mapping[str, Any]) -> Html:
        name = f"choose {row['cause']} of {row['entity_id']}"
        return tag("input", type="checkbox", name="ids", value=row["id"], aria_label=name)

    shown = [
        {
            **row,
            "": chosen(row),
            "letter": tag("a", row["id"][:8], href=f"/letters/{quote(row['id'])}"),
        }
        for row in rows
    ]
    return form(
        "/redrive",
        csrf,
        table("Letters", ("", "letter", *_COLUMNS), shown),
        tag("p", tag("button", "Redrive the chosen ones")) if rows else None,
    )


def _link(selection: Selection, by: str, **more: object) -> str:
    asked = {**selection.told(), "by": by, **more}
    return "/?" + urlencode({"status": "any", **asked}, doseq=True)


def _narrowed(selection: Selection, by: str, value: object) -> str:
    chosen = Selection.of({**selection.told(), by: str(value)})
    return _link(chosen, "cause" if by != "cause" else "entity_id")
