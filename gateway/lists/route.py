"""GET /state/{entity}, for each that has indexed fields."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.history.openapi import content
from gateway.http.problems import Problem, retry_after
from gateway.lists import openapi
from gateway.lists.list_request import asked_of
from gateway.lists.reader import ListReader, Page
from gateway.pages.csv_page import CSV, csv_answer, wants_csv
from gateway.peers.states import States
from gateway.state import answer_fields
from gateway.state.pipeline_lag import Freshness, Pipeline
from gateway.state.warming import refuse_while_warming
from shared.flow_table import Flow
from shared.model import Aggregate, Entity
from shared.tables.indexed_fields import IndexedStates, fields_of_state, indexed_states
from shared.timestamps import now_ms

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "States, in the order of their ids or as `sort` says, and how far they may "
        "be behind what was accepted.",
        "content": {**content("States"), CSV: {"schema": {"type": "string"}}},
    },
    400: {"description": "An unknown parameter, a condition that is none, or no indexed field."},
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
    404: {"description": "There is none of it that this caller may read."},
    501: {"description": "States are divided among gateways, so that none can list them."},
    503: {
        "description": "The view has not caught up yet since its first start, the states are being "
        "indexed, or too many ask at once."
    },
}
_OF_VERSION = "id", "version", "event_time", "updated_at"


def list_routes(
    flow: Flow, reader: ListReader, states: States, pipeline: Pipeline, stale_after_s: float
) -> list[BaseRoute]:
    def route(of: Entity | Aggregate, indexed: IndexedStates) -> BaseRoute:
        columns = _columns(of)

        async def answer(request: Request) -> Response:
            caller: Caller = request.scope.get(CALLER, ANYONE)
            tenant = caller.tenant_to_read(of, request.query_params.get("tenant"))
            if tenant is None:
                detail = f"there is no {of.name} that this caller may read"
                raise Problem(404, "nothing_to_read", detail)
            if states.is_divided(of):
                raise _divided(of)
            given = request.query_params.multi_items()
            page = await reader.page(asked_of(indexed, tenant, caller.device, given))
            refuse_while_warming(of, page.progress)
            if not page.is_indexed:
                raise _indexing(of)
            if wants_csv(request):
                rows = [_flat(one, columns) for one in page.states]
                return await asyncio.to_thread(csv_answer, request, [*columns], rows, page.next)
            body = _body(of, page, pipeline, stale_after_s)
            return Response(orjson.dumps(body), media_type="application/json")

        answer.__name__ = f"states_of_{of.name}"
        answer.__doc__ = f"{of.name}: states by their indexed fields, page by page."
        return _route(f"/state/{of.name}", answer, indexed)

    rows = {row.name: row for row in flow.with_state}
    return [route(rows[one.entity], one) for one in indexed_states(flow.with_state)]


def _route(
    path: str, answer: Callable[[Request], Awaitable[Response]], states: IndexedStates
) -> BaseRoute:
    return APIRoute(
        path,
        answer,
        methods=["GET"],
        responses=_ANSWERS,
        response_model=None,
        openapi_extra={"parameters": openapi.parameters(states)},
    )


def _body(
    of: Entity | Aggregate, page: Page, pipeline: Pipeline, stale_after_s: float
) -> dict[str, Any]:
    at_ms = now_ms()
    view_lag_s = answer_fields.view_lag_ms(page.progress, at_ms) / 1000
    freshness = Freshness(pipeline.of(of), view_lag_s, stale_after_s)
    return {
        "entity": of.name,
        "states": page.states,
        "next": page.next,
        **answer_fields.of_lag(page.progress, freshness, at_ms),
    }


def _columns(of: Entity | Aggregate) -> dict[str, str | None]:
    """Which field of the state each column of a page as CSV is: the same ones on every page."""
    columns: dict[str, str | None] = dict.fromkeys(_OF_VERSION)
    fields = [*fields_of_state(of)]
    for name in fields:
        column = name
        while column in columns or (column != name and column in fields):
            column = f"state_{column}"
        columns[column] = name
    return columns


def _flat(one: dict[str, Any], columns: dict[str, str | None]) -> dict[str, Any]:
    return {
        column: one[column] if field is None else one["state"].get(field)
        for column, field in columns.items()
    }


def _divided(of: Entity | Aggregate) -> Problem:
    return Problem(
        501,
        "states_divided",
        f"no gateway holds all states of {of.name} (HEADRACE_STATE_COPIES), so none can list them: "
        "ask PostgreSQL, where headrace.entity_state has them",
    )


def _indexing(of: Entity | Aggregate) -> Problem:
    return Problem(
        503,
        "indexing",
        f"the states of {of.name} are being indexed, since the flow has other indexed fields than "
        "before; ask again",
        headers=retry_after(1),
    )
