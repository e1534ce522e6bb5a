"""Forms for all letters that a selection means. Pure."""

from urllib.parse import quote

from desk.letters.selection import Selection
from desk.web.components import field, form, text
from desk.web.html import Html, tag


def redrive_all(selection: Selection, parked: int, csrf: str) -> Html:
    return form(
        "/redrive",
        csrf,
        *_meant(selection),
        tag(
            "fieldset",
            tag("legend", f"All {text(parked)} parked letters that these filters show"),
            field("per_second", "Letters a second", type="number", value=500, min=1),
            tag("button", "Redrive them all", class_="does", name="all", value="yes"),
        ),
    )


def replay_failed(selection: Selection, parked: int, csrf: str) -> Html:
    """The form that sends again what one webhook has given up."""
    hook = quote(selection.hook or "")
    return form(
        f"/webhooks/{hook}/replay",
        csrf,
        *_meant(selection),
        tag(
            "fieldset",
            tag("legend", f"All {text(parked)} that it could not be given"),
            tag("p", tag("a", "Letters", href=f"/?hook={hook}")),
            tag("button", "Send them once more", class_="does", name="failed", value="yes"),
        ),
    )


def discard(selection: Selection, name: str, csrf: str) -> Html:
    return form(
        "/discard",
        csrf,
        *_meant(selection),
        tag(
            "fieldset",
            tag("legend", "Give up for good"),
            field("reason", "Reason, for the audit", required=True),
            tag("button", name, class_="ends", name="all", value="yes"),
        ),
    )


def _meant(selection: Selection) -> list[Html]:
    return [
        tag("input", type="hidden", name=key, value=value)
        for key, values in selection.told().items()
        for value in (values if isinstance(values, tuple) else (values,))
    ]
