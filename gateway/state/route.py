"""GET /state/{id}: the newest snapshot that the view has, and how far it may be behind what was
accepted. With `fresh=true` the events after it are folded here; with `version` or `at` it is the
state as it was."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import orjson
from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.history.openapi import content
from gateway.history.route import History
from gateway.http.problems import Problem
from gateway.peers.states import States, Told
from gateway.state import answer_fields
from gateway.state.event_tail_reader import NotFresh
from gateway.state.fresh import FreshStates, Shown
from gateway.state.pipeline_lag import Freshness, Pipeline
from gateway.state.read_after import ReadAfter, Wanted, wanted_of
from gateway.state.warming import refuse_while_warming
from gateway.state_view.reader import Found, Progress
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.ids import ENTITY_ID, TENANT
from shared.model import Aggregate, Entity

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The state, and how far it may be behind what was accepted.",
        "content": content("State", "PastState"),
    },
    304: {"description": "Nothing newer than what If-None-Match names."},
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
    404: {"description": "Unknown entity or id, or none that this caller may read."},
    409: {"description": "The event of `after` was parked, and is not in the state."},
    412: {
        "description": "It does not have the version of If-Version-At-Least, or the event of "
        "`after`, in time."
    },
    503: {
        "description": "The view has not caught up yet since its first start; or, of a version or "
        "time, PostgreSQL does not answer, or persist has not stored it yet."
    },
}


_OF_LISTS = {"where", "sort", "limit", "next"}
# said, not checked: what is no id is the id of nobody
_Id = Annotated[str, Path(json_schema_extra={"pattern": f"^{ENTITY_ID.pattern}$"})]
_Version = Annotated[int | None, Query(ge=0, lt=1 << 63)]
_Time = Annotated[str | None, WithJsonSchema({"type": "string", "format": "date-time"})]
_Wanted = Annotated[Wanted | None, Depends(wanted_of)]
_Tenant = Annotated[str | None, Query(json_schema_extra={"pattern": f"^({TENANT.pattern})?$"})]


def state_routes(
    flow: Flow,
    states: States,
    fresh_states: FreshStates,
    history: History,
    pipeline: Pipeline,
    stale_after_s: float,
    read_after: ReadAfter,
) -> list[BaseRoute]:
    names = [entity.name for entity in flow.with_state]

    async def state_of(
        entity: Annotated[str, Path(json_schema_extra={"enum": names})],
        entity_id: _Id,
        request: Request,
        meta: bool = False,
        tenant: _Tenant = None,
        fresh: bool = False,
        version: _Version = None,
        at: _Time = None,
        wanted: _Wanted = None,
    ) -> Response:
        found = flow.find_with_state(entity)
        if found is None:
            known = ", ".join(names)
            raise Problem(404, "unknown_entity", f"no such entity; there are: {known}")
        if version is not None or at is not None:
            return await answer_of_past(found, entity_id, request, tenant, version, at)
        return await answer(found, entity_id, request, meta, tenant, fresh, wanted)

    async def state(
        entity_id: _Id,
        request: Request,
        meta: bool = False,
        tenant: _Tenant = None,
        fresh: bool = False,
        version: _Version = None,
        at: _Time = None,
        wanted: _Wanted = None,
    ) -> Response:
        if entity_id in names and not _OF_LISTS.isdisjoint(request.query_params):
            raise Problem(
                400,
                "no_list",
                f"there is no list of {entity_id}: its row of the flow says by `indexed` which "
                "fields it is found and sorted by",
            )
        first = flow.with_state[0]
        if version is not None or at is not None:
            return await answer_of_past(first, entity_id, request, tenant, version, at)
        return await answer(first, entity_id, request, meta, tenant, fresh, wanted)

    async def answer_of_past(
        entity: Entity | Aggregate,
        entity_id: str,
        request: Request,
        tenant: str | None,
        version: int | None,
        at: str | None,
    ) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        key = caller.full_id_to_read(entity, entity_id, tenant)
        body = await history.state(entity, key, version, at)
        return Response(orjson.dumps(body), media_type="application/json")

    async def answer(
        entity: Entity | Aggregate,
        entity_id: str,
        request: Request,
        with_meta: bool,
        tenant: str | None,
        is_fresh: bool,
        wanted: Wanted | None,
    ) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        key = caller.full_id_to_read(entity, entity_id, tenant)
        told_as_wanted: Told | None = None
        if wanted is not None and key is not None:
            told_as_wanted = await read_after.until(entity, key, wanted, request)
        if not is_fresh or key is None:
            # another copy may be behind the one that has what is wanted
            progress, found = told_as_wanted or await states.find(entity, key or "")
            shown = Shown(found)
        else:
            try:
                tail = await fresh_states.tail_of(entity, key)
            except NotFresh as not_fresh:
                progress, found = told_as_wanted or await states.find(entity, key)
                shown = Shown(found, why_not=str(not_fresh))
            else:
                told_here = states.here(entity, key)
                if told_here is not None:
                    progress, found = told_here
                    shown = await fresh_states.state(entity, key, found, tail)
                else:
                    progress, found = told_as_wanted or await states.find(entity, key)
                    shown = Shown(found, why_not="this gateway is behind with this state")
        now_ms = time.time_ns() // 1_000_000
        refuse_while_warming(entity, progress)
        is_ahead = shown.events is not None  # of fold and of the view
        behind = pipeline.of(entity, is_fresh=is_ahead)
        view_lag_s = 0.0 if is_ahead else answer_fields.view_lag_ms(progress, now_ms) / 1000
        freshness = Freshness(behind, view_lag_s, stale_after_s)
        return _answer(entity, entity_id, request, with_meta, progress, shown, freshness, now_ms)

    paths: dict[str, Callable[..., Any]] = {
        "/state/{entity_id}": state,
        "/state/{entity}/{entity_id}": state_of,
    }
    return [
        APIRoute(path, answer, methods=["GET"], responses=_RESPONSES, response_model=None)
        for path, answer in paths.items()
        if flow.with_state
    ]


def _answer(
    entity: Entity | Aggregate,
    entity_id: str,
    request: Request,
    with_meta: bool,
    progress: Progress,
    shown: Shown,
    freshness: Freshness,
    now_ms: int,
) -> Response:
    found = shown.found
    if found is None:
        begins = (
            f"its state begins with the first {entity.members} that counts for it"
            if isinstance(entity, Aggregate)
            else "its state begins with its first event, so POST one"
        )
        raise Problem(
            404,
            "unknown_id",
            f"no {entity.name} has this id; {begins}, "
            + (
                f"or ask again later: {freshness.why_stale}"
                if freshness.why_stale
                else "or look at GET /health for a job that is behind"
            ),
        )
    state = orjson.loads(found.value)
    meta = state.pop(META)
    if meta.get("deleted"):
        raise Problem(404, "deleted", f"this {entity.name} was deleted")
    # who asks again and again hears of it when it becomes stale, or is no longer
    kind = ("-meta" if with_meta else "") + ("-stale" if freshness.why_stale else "")
    tag = f'W/"{meta["version"]}-{found.partition}-{found.offset}{kind}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if _has(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    body = _body(entity, entity_id, state, meta, found, progress, freshness, now_ms)
    if shown.events is not None:
        body |= {"fresh": True, "events_ahead": shown.events}
    elif shown.why_not is not None:
        body |= {"fresh": False, "not_fresh": shown.why_not}
    if with_meta:
        body[META] = meta
    return Response(orjson.dumps(body), headers=headers, media_type="application/json")


def _body(
    entity: Entity | Aggregate,
    entity_id: str,
    state: dict[str, Any],
    meta: dict[str, Any],
    found: Found,
    progress: Progress,
    freshness: Freshness,
    now_ms: int,
) -> dict[str, Any]:
    return {
        "entity": entity.name,
        "id": entity_id,
        **answer_fields.of_version(meta, found.timestamp_ms),
        "age_ms": max(0, now_ms - found.timestamp_ms),
        **answer_fields.of_lag(progress, freshness, now_ms),
        **answer_fields.of_clocks(meta),
        "state": state,
    }


def _has(if_none_match: str | None, tag: str) -> bool:
    if if_none_match is None:
        return False
    wanted = tag.removeprefix("W/")
    return any(
        given.strip() == "*" or given.strip().removeprefix("W/") == wanted
        for given in if_none_match.split(",")
    )
