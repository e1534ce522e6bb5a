"""An entity for people: its states, a number of it over time, and what became of what it sent."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.api.letters import OpenDesk
from desk.credentials.service import CredentialDesk
from desk.entities.service import EVENTS_MAX, Entities
from desk.pages import waiting
from desk.pages.credentials import rows_of as credential_rows
from desk.web.chart import chart, numbers_in
from desk.web.components import as_json, choice, facts, field, table, text
from desk.web.html import Html, tag
from desk.web.shell import shown
from desk.whereabouts.service import Whereabouts

_TITLE = "Entities"
_EVENT = ("event_id", "type", "event_time", "arrived_at", "data")
_LETTER = ("letter", "cause", "stage", "status", "times", "parked_at", "detail")
_CREDENTIAL = ("key_id", "kind", "made", "not_after")
_STAGE = ("stage", "at", "event", "place", "rest")


def entity_pages(open_desk: OpenDesk, credentials: CredentialDesk) -> APIRouter:
    router = APIRouter()

    @router.get("/entities")
    def which(request: Request, id: str = "", event: str = "") -> Response:  # noqa: A002 - a form's
        if id.strip():
            return RedirectResponse(f"/entities/{quote(id.strip())}", 303)
        if event.strip():
            return RedirectResponse(f"/events/{quote(event.strip())}", 303)
        return shown(request, _TITLE, _forms())

    @router.get("/entities/{entity_id:path}")
    def one(request: Request, entity_id: str, field: str = "") -> Response:
        with open_desk() as desk:
            found = Entities(desk, credentials).find(entity_id)
        return shown(request, _TITLE, told_of(found, field))

    @router.get("/events/{event_id:path}")
    def event(request: Request, event_id: str, place: str | None = None) -> Response:
        with open_desk() as desk:
            found = Whereabouts(desk).find(event_id, place)
        return shown(request, _TITLE, whereabouts(found))

    return router


def link_to(entity_id: str) -> Html:
    return tag("a", entity_id, href=f"/entities/{quote(entity_id)}")


def _forms() -> list[Html]:
    return [
        tag("h2", "Which entity?"),
        _form("id", "Its id, with its tenant's before it: acme/device-0001", "Show"),
        tag("h2", "Where is what it sent?"),
        _form("event", "The id on its receipt", "Find"),
    ]


def _form(name: str, says: str, does: str) -> Html:
    return tag(
        "form",
        tag("fieldset", field(name, says, required=True), tag("button", does, class_="does")),
        method="get",
        action="/entities",
        role="search",
    )


def told_of(found: Mapping[str, Any], chosen: str) -> list[Html]:
    letters = [
        {**one, "letter": tag("a", one["id"][:8], href=f"/letters/{quote(one['id'])}")}
        for one in found["letters"]
    ]
    return [
        tag("h2", found["id"]),
        *(
            tag("p", f"What of it is among {name} is not known now: {why}", class_="wrong")
            for name, why in found["unknown"].items()
        ),
        *(part for state in found["states"] for part in _state(state)),
        *_chart(found, chosen),
        tag("h3", f"The newest {text(EVENTS_MAX)} events that are stored"),
        table("Events", _EVENT, [_event(one) for one in found["events"]]),
        tag("h3", "What waits"),
        waiting.rows(found["waiting"]),
        tag("h3", "Letters"),
        table("Letters", _LETTER, letters),
        tag("h3", "Credentials"),
        table("Credentials", _CREDENTIAL, credential_rows(found["credentials"])),
    ]


def _event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    at = f"/events/{quote(event['event_id'])}"
    return {**event, "event_id": tag("a", event["event_id"], href=at)}


def _state(state: Mapping[str, Any]) -> list[Html]:
    ended = ", deleted" if state["deleted"] else ""
    return [
        tag("h3", f"{state['entity']}, version {state['version']}{ended}"),
        tag("pre", as_json(state["state"]), tabindex=0, aria_label=f"state of {state['entity']}"),
    ]


def _chart(found: Mapping[str, Any], chosen: str) -> list[Html]:
    numbers = numbers_in(found["events"])
    if not numbers:
        return []
    name = chosen if chosen in numbers else next(iter(numbers))
    which = tag(
        "form",
        tag("fieldset", choice("field", "Field", [*numbers], name), tag("button", "Show")),
        method="get",
        action=f"/entities/{quote(found['id'])}",
    )
    return [tag("h3", "Over time"), chart(name, numbers[name]), *([which] if numbers else [])]


def whereabouts(found: Mapping[str, Any]) -> list[Html]:
    stages = [
        {**one, "rest": {name: its for name, its in one.items() if name not in _STAGE}}
        for one in found["stages"]
    ]
    others = [name for name in found if name not in ("stages", "id", "now")]
    return [
        tag("h2", f"Event {found['id']}"),
        tag("p", tag("strong", str(found["now"])), class_="told"),
        *([facts(others, found)] if others else []),
        table("Stages", _STAGE, stages),
    ]
