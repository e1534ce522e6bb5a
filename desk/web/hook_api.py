"""Webhooks for programs: /api/hooks. A secret is told where it is made, and nowhere else."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Query
from starlette.requests import Request
from starlette.responses import Response

from desk.hooks.replay import Window
from desk.hooks.service import BadHookError, HookDesk
from desk.web.access import by
from desk.web.form import selection_of
from gateway.http.problems import Problem
from shared.timestamps import from_rfc3339, now_ms

_DAY_MS = 86_400_000


def hook_api(hooks: HookDesk) -> APIRouter:
    router = APIRouter(prefix="/api/hooks")

    @router.get("")
    def all_of_them() -> Response:
        return _json({"hooks": hooks.all()})

    @router.get("/{name}")
    def show(name: str) -> Response:
        return _json(hooks.show(name))

    @router.put("/{name}")
    def add(name: str, fields: Annotated[dict[str, Any], Body()]) -> Response:
        own = {field: value for field, value in fields.items() if field != "secret"}
        secret = fields.get("secret")
        if not isinstance(secret, str | None):
            raise BadHookError("secret: it is no text")
        made = hooks.add(name, own, secret)
        told = hooks.show(name)
        return _json(told if made is None else {**told, "secret": made}, 201)

    @router.post("/{name}/pause")
    def pause(name: str) -> Response:
        hooks.pause(name)
        return _json(hooks.show(name))

    @router.post("/{name}/resume")
    def resume(name: str) -> Response:
        hooks.resume(name)
        return _json(hooks.show(name))

    @router.post("/{name}/rotate")
    def rotate(name: str) -> Response:
        return _json({"name": name, "secret": hooks.rotate(name)})

    @router.post("/{name}/test")
    def test(name: str) -> Response:
        return _json({"event_id": hooks.send_test(name)}, 202)

    @router.post("/{name}/replay")
    def replay(
        request: Request,
        name: str,
        since: Annotated[str | None, Body()] = None,
        until: Annotated[str | None, Body()] = None,
        entity: Annotated[str | None, Body()] = None,
        failed: Annotated[bool, Body()] = False,
    ) -> Response:
        since_ms = None if since is None else time_ms("since", since)
        until_ms = now_ms() if until is None else time_ms("until", until)
        if failed:
            given = {"since": since, "until": until, "entity_id": entity}
            meant = selection_of({filter_: [text or ""] for filter_, text in given.items()})
            begun = hooks.replay_failed(name, meant, by(request))
            return _json({"letters": begun.letters, "redrive": begun.id}, 202)
        if since_ms is None:
            raise Problem(400, "no_since", "give since; or failed: true, for what was given up")
        return _json({"events": hooks.replay(name, Window(since_ms, until_ms, entity))})

    @router.get("/{name}/log")
    def log(
        name: str, since: str | None = None, limit: Annotated[int, Query(ge=1, le=10_000)] = 100
    ) -> Response:
        since_ms = day_ago_ms() if since is None else time_ms("since", since)
        return _json({"tries": hooks.log(name, since_ms, limit)})

    @router.delete("/{name}")
    def delete(name: str) -> Response:
        hooks.delete(name)
        return Response(status_code=204)

    return router


def time_ms(name: str, time: str) -> int:
    try:
        return from_rfc3339(time)
    except (ValueError, OverflowError) as error:
        raise Problem(400, "bad_time", f"{name}: {error}; write 2026-11-21T12:00:00Z") from error


def day_ago_ms() -> int:
    return now_ms() - _DAY_MS


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")
