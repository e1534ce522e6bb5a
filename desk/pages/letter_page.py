"""The page of a letter: what is wrong with it, its bytes, and what can be done. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from desk.letters.dry_run import Trial
from desk.letters.selection import Selection
from desk.pages.bulk_forms import discard
from desk.prediction.states import StateTrial
from desk.web.components import as_json, choice, facts, form, table, text
from desk.web.html import Html, tag
from desk.web.rights import for_who_may

_FIRST = ("entity_id", "endpoint", "stage", "status", "times", "first_parked", "parked_at")
_ELSEWHERE = ("id", "cause", "detail", "attempts", "headers", "payload_bytes", "key")
_ATTEMPT = ("number", "at", "stage", "cause", "detail", "software")
_OUTCOMES = {
    "event": "It would become this event.",
    "dropped": "It would be dropped on purpose",
    "row": "It would be stored.",
    "parked": "It would be parked again",
    "waits": "It would wait",
    "refused": "It cannot be sent on again",
}


def letter(
    found: Mapping[str, Any],
    edited: str,
    written: str,
    trial: Trial | None,
    csrf: str,
    up_to: str,
) -> list[Html]:
    """`edited`: what stands in the field for other bytes, written as text or base64."""
    shown = found["payload_bytes"]
    others = [name for name in found if name not in (*_FIRST, *_ELSEWHERE)]
    times = found["times"]
    again = f"It was parked {times} times: what was done did not mend it, or not all of it."
    return [
        tag("h2", f"Letter {found['id']}"),
        tag("p", tag("strong", found["cause"]), " ", found["detail"], class_="wrong"),
        *([tag("p", again, class_="again")] if times > 1 else []),
        facts(_FIRST, found),
        _its_entity(found["entity_id"]),
        tag("h3", "Its bytes"),
        *(_bytes(shown) if shown else [tag("p", "They are no longer in their topic.")]),
        *(_mend(found, edited, written, csrf) if shown else []),
        *(_trial(trial) if trial else []),
        tag("h3", "Attempts"),
        table("Attempts", _ATTEMPT, found["attempts"]),
        tag("h3", "Key, headers and the rest"),
        tag(
            "details",
            tag("summary", f"{len(found['headers'])} headers, {len(others)} facts"),
            facts(("key",), found),
            tag(
                "dl",
                *((tag("dt", name), tag("dd", text(value))) for name, value in found["headers"]),
            ),
            facts(others, found),
        ),
        discard(Selection(ids=(found["id"],), up_to=up_to), "Discard this letter", csrf),
    ]


def _its_entity(entity_id: str | None) -> Html:
    if not entity_id:
        return tag("p", "Of no entity.", class_="quiet")
    return tag("p", tag("a", "All of this entity", href=f"/entities/{quote(entity_id)}"))


def _bytes(shown: Mapping[str, Any]) -> list[Html]:
    parts = [("JSON", shown["json"]), ("Text", shown["text"]), ("Hex", "\n".join(shown["hex"]))]
    return [
        tag(
            "details",
            tag("summary", name),
            tag("pre", value, class_="hex" if name == "Hex" else None, tabindex=0),
            open=number == 0,
        )
        for number, (name, value) in enumerate((n, v) for n, v in parts if v is not None)
    ]


def _mend(found: Mapping[str, Any], edited: str, written: str, csrf: str) -> list[Html]:
    action = f"/letters/{quote(found['id'])}"
    return [
        tag("h3", "Try and send on again"),
        form(
            f"{action}/try#trial",
            csrf,
            tag(
                "fieldset",
                choice("form", "Written as", ("text", "base64"), written),
                tag(
                    "label",
                    "Bytes to send instead; unchanged, the letter's own are sent",
                    tag("textarea", "\n" + edited, name="bytes", spellcheck="false", rows=4),
                    class_="whole",
                ),
                tag("button", "Try (nothing is written)"),
                tag(
                    "button",
                    "Redrive with these bytes",
                    class_=f"does {for_who_may('operate')}",
                    formaction=f"{action}/redrive",
                ),
            ),
        ),
    ]


def _trial(trial: Trial) -> list[Html]:
    why = ": ".join(filter(None, (trial.cause, trial.detail)))
    said = " ".join(filter(None, (_OUTCOMES[trial.outcome], why)))
    return [
        tag("h3", "What would happen", id="trial"),
        tag("p", said, class_="told", role="status"),
        *([tag("pre", as_json(trial.event), tabindex=0)] if trial.event else []),
        *(part for state in trial.states for part in _state(state)),
    ]


def _state(state: StateTrial) -> list[Html]:
    return [
        tag("h4", f"{state.entity} {state.id}: {state.outcome}"),
        *([tag("p", state.detail)] if state.detail else []),
        tag("pre", as_json(state.after), tabindex=0),
    ]
