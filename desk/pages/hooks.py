"""Webhooks for people: which there are, how each is, and what was tried."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.api.hooks import day_ago_ms, time_ms
from desk.api.letters import OpenDesk
from desk.hooks.replay import Window
from desk.hooks.service import BadHookError, HookDesk
from desk.letters.selection import Selection
from desk.pages.bulk_forms import replay_failed
from desk.web.access import by, csrf_of
from desk.web.components import facts, field, form, table, text
from desk.web.form import FormFields, first, selection_of
from desk.web.form import form as form_of
from desk.web.html import Html, tag
from desk.web.shell import shown
from shared.errors import StoreAwayError
from shared.timestamps import now_ms, to_rfc3339

_TRIES = 200
_FACTS = ("state", "why", "waiting", "url", "of", "types", "entities", "tenant", "where", "fields")
_HOW = ("shape", "order", "delivery", "batch", "concurrency", "per_s", "timeout_s", "made")
_TRIED = ("at", "event", "entity_id", "try", "verdict", "status", "ms", "said")
Form = Annotated[FormFields, Depends(form_of)]


def hook_pages(hooks: HookDesk, open_desk: OpenDesk) -> APIRouter:
    router = APIRouter(prefix="/webhooks")

    @router.get("")
    def all_of_them(request: Request) -> Response:
        return shown(request, "Webhooks", listed(hooks.all()))

    @router.get("/{name}")
    def one(request: Request, name: str) -> Response:
        return _one(request, name)

    @router.post("/{name}/replay")
    def replay(request: Request, name: str, fields: Form) -> Response:
        if first(fields, "failed") == "yes":
            begun = hooks.replay_failed(name, selection_of(fields), by=by(request))
            return _one(request, name, f"{text(begun.letters)} letters go to {name} once more.")
        until = first(fields, "until").strip()
        window = Window(
            time_ms("since", first(fields, "since").strip()),
            time_ms("until", until) if until else now_ms(),
            first(fields, "entity").strip() or None,
        )
        count = hooks.replay(name, window, by=by(request))
        return _one(request, name, f"{count} events go to {name} once more.")

    @router.post("/{name}/{verb}")
    def change(request: Request, name: str, verb: str, _: Form) -> Response:
        does = {"pause": hooks.pause, "resume": hooks.resume, "test": hooks.send_test}.get(verb)
        if does is None:
            raise BadHookError(f"a webhook cannot {verb}: pause, resume, test, replay")
        does(name, by=by(request))
        return RedirectResponse(f"/webhooks/{quote(name)}", 303)

    def _one(request: Request, name: str, told: str = "") -> Response:
        hook, tries = hooks.show(name), hooks.log(name, day_ago_ms(), _TRIES)
        content = told_of(hook, tries, csrf_of(request))
        return shown(request, "Webhook", [*content, *_letters(name, csrf_of(request))], told)

    def _letters(name: str, csrf: str) -> list[Html]:
        try:
            with open_desk() as desk:
                meant = Selection(hook=name, status="parked", up_to=desk.book.mark())
                return [replay_failed(meant, desk.book.count(meant), csrf)]
        except StoreAwayError as away:  # what stands in Kafka can be shown all the same
            return [tag("p", f"Its letters are not known now: {away}", class_="quiet")]

    return router


def listed(found: Sequence[Mapping[str, Any]]) -> list[Html]:
    rows = [
        {**hook, "name": tag("a", hook["name"], href=f"/webhooks/{quote(hook['name'])}")}
        for hook in found
    ]
    return [
        tag("h2", "Webhooks"),
        table("Webhooks", ("name", "state", "waiting", "of", "types", "url", "why"), rows),
        tag("p", "./headrace hooks add NAME URL adds one.", class_="quiet"),
    ]


def told_of(hook: Mapping[str, Any], tries: Sequence[Mapping[str, Any]], csrf: str) -> list[Html]:
    name = hook["name"]
    rows = [
        {**one, "at": to_rfc3339(one["at_ms"]), "event": one["event_id"]} for one in reversed(tries)
    ]
    return [
        tag("h2", name),
        facts((*_FACTS, *_HOW), hook),
        *(_does(name, verb, csrf) for verb in _verbs(hook)),
        tag("h2", "Tries of the last day"),
        table("Tries", _TRIED, rows),
        tag("p", f"The last {text(_TRIES)} at most, the newest first.", class_="quiet"),
        _replay(name, csrf),
    ]


def _verbs(hook: Mapping[str, Any]) -> tuple[str, ...]:
    return {"active": ("pause", "test"), "paused": ("resume",)}.get(hook["state"], ())


def _does(name: str, verb: str, csrf: str) -> Html:
    said = {"pause": "Pause", "resume": "Resume", "test": "Send a test event"}[verb]
    return form(f"/webhooks/{quote(name)}/{verb}", csrf, tag("button", said))


def _replay(name: str, csrf: str) -> Html:
    return form(
        f"/webhooks/{quote(name)}/replay",
        csrf,
        tag(
            "fieldset",
            tag("legend", "Send it once more what came in a window"),
            field("since", "Since", required=True, placeholder=to_rfc3339(day_ago_ms())),
            field("until", "Until", placeholder="now"),
            field("entity", "Entity", placeholder="all"),
            tag("button", "Replay", class_="does"),
        ),
    )
