"""Webhooks for programs: /api/hooks. A secret is told where it is made, and nowhere else.

A tenant's operators have those of their tenant here, and no others.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from desk.api.answers import json
from desk.api.documents import Document, storable
from desk.hooks.replay import Window
from desk.hooks.service import BadHookError, HookDesk, NoHookError
from desk.web.access import by, tenant_of
from desk.web.form import selection_of
from gateway.http.problems import Problem
from shared.forwarding.hook import OF, owner_of
from shared.timestamps import from_rfc3339, now_ms

_DAY_MS = 86_400_000


def _own(request: Request, name: str) -> str:
    """Another's is like one that is not there."""
    tenant = tenant_of(request)
    if tenant and owner_of(name) != tenant:
        raise NoHookError(f"there is no hook {name}: those of {tenant} are called {tenant}{OF}NAME")
    return name


Name = Annotated[str, Depends(_own)]
Fields = Annotated[dict[str, Any], Body(), BeforeValidator(storable)]


class ToRotate(Document):
    secret: str | None = None


class ToReplay(Document):
    since: str | None = None
    until: str | None = None
    entity: str | None = None
    failed: bool = False


def hook_api(hooks: HookDesk) -> APIRouter:
    router = APIRouter(prefix="/api/hooks")

    @router.get("")
    def all_of_them(request: Request) -> Response:
        """List webhooks, how each is and how much waits for it."""
        tenant = tenant_of(request)
        found = [one for one in hooks.all() if tenant in ("", owner_of(one["name"]))]
        return json({"hooks": found})

    @router.get("/{name}")
    def show(name: Name) -> Response:
        """Show a webhook, but for its secret."""
        return json(hooks.show(name))

    @router.put("/{name}")
    def add(request: Request, name: Name, fields: Fields) -> Response:
        """Add a webhook; its secret is told here alone."""
        own = {field: value for field, value in fields.items() if field != "secret"}
        secret = fields.get("secret")
        if not isinstance(secret, str | None):
            raise BadHookError("secret: it is no text")
        made = hooks.add(name, own, secret, by=by(request))
        told = hooks.show(name)
        return json(told if made is None else {**told, "secret": made}, 201)

    @router.post("/{name}/pause")
    def pause(request: Request, name: Name) -> Response:
        """Pause a webhook: what comes for it waits."""
        hooks.pause(name, by=by(request))
        return json(hooks.show(name))

    @router.post("/{name}/resume")
    def resume(request: Request, name: Name) -> Response:
        """Let a webhook go on with what waits."""
        hooks.resume(name, by=by(request))
        return json(hooks.show(name))

    @router.post("/{name}/rotate")
    def rotate(request: Request, name: Name, asked: ToRotate | None = None) -> Response:
        """Give a webhook a new secret, which is told here alone."""
        secret = hooks.rotate(name, asked.secret if asked else None, by=by(request))
        return json({"name": name, "secret": secret})

    @router.post("/{name}/test")
    def test(request: Request, name: Name) -> Response:
        """Send a webhook an event of the type test."""
        return json({"event_id": hooks.send_test(name, by=by(request))}, 202)

    @router.post("/{name}/replay")
    def replay(request: Request, name: Name, asked: ToReplay | None = None) -> Response:
        """Send a webhook once more what came in a time, or what was given up."""
        asked = asked or ToReplay()
        since_ms = None if asked.since is None else time_ms("since", asked.since)
        until_ms = now_ms() if asked.until is None else time_ms("until", asked.until)
        if asked.failed:
            given = {"since": asked.since, "until": asked.until, "entity_id": asked.entity}
            meant = selection_of({filter_: [text or ""] for filter_, text in given.items()})
            begun = hooks.replay_failed(name, meant, by=by(request))
            return json({"letters": begun.letters, "redrive": begun.id}, 202)
        if since_ms is None:
            raise Problem(400, "no_since", "give since; or failed: true, for what was given up")
        window = Window(since_ms, until_ms, asked.entity)
        return json({"events": hooks.replay(name, window, by=by(request))})

    @router.get("/{name}/log")
    def log(
        name: Name, since: str | None = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
    ) -> Response:
        """List the tries to send to a webhook."""
        since_ms = day_ago_ms() if since is None else time_ms("since", since)
        return json({"tries": hooks.log(name, since_ms, limit)})

    @router.delete("/{name}")
    def delete(request: Request, name: Name) -> Response:
        """Delete a webhook; what waits for it is dropped."""
        hooks.delete(name, by=by(request))
        return Response(status_code=204)

    return router


def time_ms(name: str, time: str) -> int:
    try:
        return from_rfc3339(time)
    except (ValueError, OverflowError) as error:
        raise Problem(400, "bad_time", f"{name}: {error}; write 2026-11-21T12:00:00Z") from error


def day_ago_ms() -> int:
    return now_ms() - _DAY_MS
