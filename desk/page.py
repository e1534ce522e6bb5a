"""The pages, from what the desk has found. Pure; forms and links alone, so it works with a keyboard
and without a script."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from desk.html import Html, page, tag
from desk.redrive_book import Redrive
from desk.selection import GROUPED_BY, STATUSES, Selection
from desk.trial import Trial

_COLUMNS = ("cause", "stage", "endpoint", "entity_id", "times", "parked_at", "status", "detail")
_LABELS = {"entity_id": "device", "parked_at": "parked", "first_parked": "first parked"}
_FILTERS = ("cause", "stage", "endpoint", "entity_id", "since", "until")
_OUTCOMES = {
    "event": "It would become this event.",
    "row": "It would be stored.",
    "parked": "It would be parked again",
    "waits": "It would wait",
    "refused": "It cannot be sent on again",
}


def shell(
    title: str, *content: object, csrf: str, signed_in: bool = False, told: str = ""
) -> bytes:
    away = _form("/logout", csrf, tag("button", "Sign out")) if signed_in else None
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
            tag(
                "header",
                tag("h1", "Dead letters"),
                tag(
                    "nav",
                    *(
                        (tag("a", name, href=href), " ")
                        for name, href in (
                            ("Letters", "/"),
                            ("Redrives", "/redrives"),
                            ("Audit", "/audit"),
                        )
                    ),
                    aria_label="Desk",
                ),
                away,
            ),
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
        _form(
            "/login",
            csrf,
            tag(
                "fieldset",
                _input("token", "An operator's token", type="password", required=True),
                tag("button", "Sign in"),
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
    """`parked`: how many of all that the filters show."""
    return [
        _filters(selection, by),
        tag("h2", f"By {_label(by)}"),
        _groups(selection, by, groups),
        tag("h2", "Letters"),
        _list(rows, csrf),
        tag("p", tag("a", "Older letters", href=_link(selection, by, after=following)))
        if following
        else tag("p", "These are all."),
        *([_whole(selection, parked, csrf)] if parked else []),
    ]


def letter(
    found: Mapping[str, Any], edited: str, form: str, trial: Trial | None, csrf: str
) -> list[Html]:
    """`edited`: what stands in the field for other bytes, written in `form`."""
    shown = found["payload_bytes"]
    facts = [
        name for name in found if name not in ("id", "attempts", "headers", "payload_bytes", "key")
    ]
    return [
        tag("h2", f"Letter {found['id']}"),
        tag("dl", *((tag("dt", _label(name)), tag("dd", _text(found[name]))) for name in facts)),
        tag("h2", "Attempts"),
        _table(("number", "at", "stage", "cause", "detail", "software"), found["attempts"]),
        tag("h2", "Its bytes"),
        *(_bytes(shown) if shown else [tag("p", "They are no longer in their topic.")]),
        tag("h2", "Key and headers"),
        tag(
            "dl",
            tag("dt", "key"),
            tag("dd", _text(found["key"])),
            *((tag("dt", name), tag("dd", _text(value))) for name, value in found["headers"]),
        ),
        *(_mend(found, edited, form, csrf) if shown else []),
        *(_trial(trial) if trial else []),
        _discard(Selection(ids=(found["id"],)), "Discard this letter", csrf),
    ]


def refusals(found: Sequence[Mapping[str, Any]]) -> Html:
    return tag("section", tag("h2", "Refused"), _table(("letter", "refusal"), found))


def redrives(found: Sequence[Redrive], csrf: str) -> list[Html]:
    columns = ("id", "status", "sent", "letters", "refused", "per_second", "by", "begun_at")

    def act(one: Redrive) -> Html | None:
        verb = {"running": "stop", "stopped": "resume"}.get(one.status)
        if verb is None:
            return None
        button = tag("button", verb.capitalize(), aria_label=f"{verb} redrive {one.id}")
        return _form(f"/redrives/{one.id}/{verb}", csrf, button)

    rows = [
        {**one.told, "selection": _text(one.selection), "": act(one), "last refusal": one.refusal}
        for one in found
    ]
    return [tag("h2", "Redrives"), _table((*columns, "selection", "last refusal", ""), rows)]


def audit(found: Sequence[Mapping[str, Any]]) -> list[Html]:
    columns = ("seq", "at", "by", "what", "letters", "selection", "reason")
    return [tag("h2", "Audit"), _table(columns, found)]


def _filters(selection: Selection, by: str) -> Html:
    asked = selection._asdict()
    return tag(
        "form",
        tag(
            "fieldset",
            tag("legend", "Which letters"),
            _select("status", "Status", ("any", *STATUSES), asked["status"] or "any"),
            *(_input(name, _label(name).capitalize(), value=asked[name]) for name in _FILTERS),
            _select("by", "Count by", GROUPED_BY, by),
            tag("button", "Show"),
        ),
        method="get",
        action="/",
    )


def _groups(selection: Selection, by: str, groups: Sequence[Mapping[str, Any]]) -> Html:
    rows = [
        {
            **group,
            by: tag("a", _text(group[by]), href=_narrowed(selection, by, group[by]))
            if group[by] is not None
            else "-",
        }
        for group in groups
    ]
    return _table((by, "letters", "times_most", "first_parked", "parked_at"), rows)


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
    return _form(
        "/redrive",
        csrf,
        _table(("", "letter", *_COLUMNS), shown),
        tag("p", tag("button", "Redrive the chosen ones")) if rows else None,
    )


def _whole(selection: Selection, parked: int, csrf: str) -> Html:
    """For all that the filters show, not this page alone."""
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in selection.told().items()
        if name != "ids"
    ]
    return tag(
        "section",
        _form(
            "/redrive",
            csrf,
            *hidden,
            tag(
                "fieldset",
                tag("legend", f"All {parked} parked letters that these filters show"),
                _input("per_second", "Letters a second", type="number", value=500, min=1),
                tag("button", "Redrive them all", name="all", value="yes"),
            ),
        ),
        _discard(selection, f"Discard all {parked}", csrf),
    )


def _mend(found: Mapping[str, Any], edited: str, form: str, csrf: str) -> list[Html]:
    action = f"/letters/{quote(found['id'])}"
    return [
        tag("h2", "Try and send on again"),
        _form(
            f"{action}/try",
            csrf,
            tag(
                "fieldset",
                _select("form", "Written as", ("text", "base64"), form),
                tag(
                    "label",
                    "Bytes to send instead; unchanged, the letter's own are sent",
                    tag("textarea", "\n" + edited, name="bytes", spellcheck="false"),
                    class_="wide",
                ),
                tag("button", "Try (nothing is written)"),
                tag("button", "Redrive with these bytes", formaction=f"{action}/redrive"),
            ),
        ),
    ]


def _trial(trial: Trial) -> list[Html]:
    why = ": ".join(filter(None, (trial.cause, trial.detail)))
    said = " ".join(filter(None, (_OUTCOMES[trial.outcome], why)))
    return [
        tag("h2", "What would happen", id="trial"),
        tag("p", said, class_="told", role="status"),
        *([tag("pre", _json(trial.event), tabindex=0)] if trial.event else []),
        *(
            part
            for state in trial.states
            for part in (
                tag("h2", f"{state.entity} {state.id}: {state.outcome}"),
                tag("p", state.detail),
                tag("pre", _json(state.after), tabindex=0),
            )
        ),
    ]


def _discard(selection: Selection, name: str, csrf: str) -> Html:
    hidden = [
        tag("input", type="hidden", name=key, value=value)
        for key, values in selection.told().items()
        for value in (values if isinstance(values, tuple) else (values,))
    ]
    return _form(
        "/discard",
        csrf,
        *hidden,
        tag(
            "fieldset",
            tag("legend", "Give up for good"),
            _input("reason", "Reason", required=True),
            tag("button", name, name="all", value="yes"),
        ),
    )


def _bytes(shown: Mapping[str, Any]) -> list[Html]:
    parts = [("JSON", shown["json"]), ("Text", shown["text"]), ("Hex", "\n".join(shown["hex"]))]
    return [
        tag(
            "details",
            tag("summary", name),
            tag("pre", text, class_="hex" if name == "Hex" else None, tabindex=0),
            open=number == 0,
        )
        for number, (name, text) in enumerate((n, t) for n, t in parts if t is not None)
    ]


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Html:
    if not rows:
        return tag("p", "None.")
    head = tag("tr", *(tag("th", _label(name), scope="col") for name in columns))
    return tag(
        "table",
        tag("thead", head),
        tag("tbody", *(tag("tr", *(_cell(row.get(name)) for name in columns)) for row in rows)),
    )


def _cell(value: object) -> Html:
    if isinstance(value, Html):
        return tag("td", value)
    is_number = isinstance(value, int | float)
    return tag("td", _text(value), class_="number" if is_number else None)


def _form(action: str, csrf: str, *content: object) -> Html:
    token = tag("input", type="hidden", name="csrf", value=csrf)
    return tag("form", token, *content, method="post", action=action)


def _input(name: str, label: str, **attributes: object) -> Html:
    return tag("label", label, tag("input", name=name, **attributes))


def _select(name: str, label: str, options: Sequence[str], chosen: str) -> Html:
    choices = (tag("option", one, value=one, selected=one == chosen) for one in options)
    return tag("label", label, tag("select", *choices, name=name))


def _label(name: str) -> str:
    return _LABELS.get(name, name).replace("_", " ")


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=str).decode()
    if hasattr(value, "isoformat"):
        return str(value.isoformat(sep=" ", timespec="seconds"))
    return str(value)


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


def _link(selection: Selection, by: str, **more: object) -> str:
    asked = {**selection.told(), "by": by, **more}
    return "/?" + urlencode({"status": "any", **asked}, doseq=True)


def _narrowed(selection: Selection, by: str, value: object) -> str:
    chosen = Selection.of({**selection.told(), by: str(value)})
    return _link(chosen, "cause" if by != "cause" else "entity_id")
