"""The lists of dead letters, of redrives, and the audit, from what the desk has found. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from desk.letters.redrive_store import Redrive
from desk.letters.selection import GROUPED_BY, STATUSES, Selection
from desk.pages.bulk_forms import discard, redrive_all
from desk.web.components import choice, field, form, label, table, text
from desk.web.html import Html, tag
from desk.web.rights import for_who_may

_COLUMNS = ("cause", "stage", "endpoint", "entity_id", "times", "parked_at", "status", "detail")
_FILTERS = ("cause", "stage", "endpoint", "entity_id", "hook", "since", "until")
_A_TIME = "2026-11-22T04:00:00Z"


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
    needs = for_who_may("operate")
    return form(
        "/redrive",
        csrf,
        table("Letters", ("", "letter", *_COLUMNS), shown),
        tag("p", tag("button", "Redrive the chosen ones"), class_=needs) if rows else None,
        is_for_all=True,
    )


def _link(selection: Selection, by: str, **more: object) -> str:
    asked = {**selection.told(), "by": by, **more}
    return "/?" + urlencode({"status": "any", **asked}, doseq=True)


def _narrowed(selection: Selection, by: str, value: object) -> str:
    chosen = Selection.of({**selection.told(), by: str(value)})
    return _link(chosen, "cause" if by != "cause" else "entity_id")
