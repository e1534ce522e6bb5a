"""GET /views and GET /views/{name}: what the flow's views say, and how far they are behind what was
accepted."""

import csv
import io
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import Path, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.http.problems import Problem, retry_after
from gateway.monitor.job_news import JobNews
from gateway.state.pipeline_lag import Pipeline
from gateway.state.route import Freshness
from gateway.view.reader import StateView
from gateway.views.page import Page, page_of
from gateway.views.wish import WINDOW, is_closed, token_of, wish_of
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.ids import NO_TENANT
from shared.model import View
from shared.timestamps import now_ms, to_rfc3339

_TENANT = "tenant"
_CSV = "text/csv"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Rows, in the order of their keys, and how far the view is."},
    400: {"description": "A parameter that the view has not, or that says nothing."},
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
    404: {"description": "No such view, or none that this caller may read."},
    503: {"description": "The rows have not been read from Kafka yet since the first start."},
}


def view_routes(
    flow: Flow, source: StateView, news: JobNews, pipeline: Pipeline, stale_after_s: float
) -> list[BaseRoute]:
    names = [row.name for row in flow.views]

    async def views(request: Request) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        its = [_described(row) for row in flow.views if _may_read(caller, row)]
        return Response(orjson.dumps({"views": its}), media_type="application/json")

    async def view(
        name: Annotated[str, Path(json_schema_extra={"enum": names})], request: Request
    ) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        row = flow.view(name)
        if row is None or not _may_read(caller, row):
            known = [one.name for one in flow.views if _may_read(caller, one)]
            there_are = ", ".join(known) or "none for this caller"
            raise Problem(404, "unknown_view", f"no such view; there are: {there_are}")
        wish = wish_of(row, request.query_params)
        progress = source.topic_progress(row.topic)
        if not progress.warm or progress.caught_up_ms is None:
            raise Problem(
                503,
                "warming",
                f"the rows of {row.name} are still being read from Kafka; ask again",
                headers=retry_after(1),
            )
        view_lag_s = max(0, now_ms() - progress.caught_up_ms) / 1000
        freshness = Freshness(pipeline.of(row), view_lag_s, stale_after_s)
        status = news.statuses([row.job])[row.job]
        said = status.of_view if status else {}
        watermark_ms = said.get("watermark_ms")

        def may_see(its: Mapping[str, Any]) -> bool:
            return caller.all_tenants or _TENANT not in row.key or _is_own(caller, its)

        page = page_of(source, row, wish, watermark_ms, may_see)
        if _CSV in request.headers.get("accept", ""):
            return _as_csv(row, page, request, watermark_ms)
        body = {
            "view": row.name,
            "rows": [_shown(one, watermark_ms) for one in page.rows],
            "next": None if page.goes_on_after is None else token_of(page.goes_on_after),
            "watermark": None if watermark_ms is None else to_rfc3339(int(watermark_ms)),
            "late": said.get("late", 0),
            "pipeline_lag_s": freshness.lag_s,
            "stale": bool(freshness.why_stale),
            **({"stale_because": freshness.why_stale} if freshness.why_stale else {}),
        }
        return Response(orjson.dumps(body), media_type="application/json")

    return [
        APIRoute(path, answer, methods=["GET"], responses=_ANSWERS, response_model=None)
        for path, answer in (("/views", views), ("/views/{name}", view))
        if flow.views
    ]


def _may_read(caller: Caller, row: View) -> bool:
    """As of aggregates: no device, and no gateway. A view whose rows are of no tenant tells of all
    of them at once."""
    if caller.role in ("device", "gateway"):
        return False
    return caller.all_tenants or _TENANT in row.key or caller.tenant == NO_TENANT


def _is_own(caller: Caller, row: Mapping[str, Any]) -> bool:
    return (row.get(_TENANT) or NO_TENANT) == caller.tenant


def _described(row: View) -> dict[str, Any]:
    return {
        "name": row.name,
        "of": row.of,
        "key": row.key,
        "results": row.results,
        "late_after_s": row.late_after_s,
        "version": row.version,
    }


def _shown(row: dict[str, Any], watermark_ms: float | None) -> dict[str, Any]:
    if WINDOW in row:
        row[META]["closed"] = is_closed(row, watermark_ms)
    return row


def _as_csv(row: View, page: Page, request: Request, watermark_ms: float | None) -> Response:
    rows = [_flat(_shown(one, watermark_ms)) for one in page.rows]
    text = io.StringIO()
    out = csv.DictWriter(text, fieldnames=[*rows[0]] if rows else [*row.key], lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    headers = {}
    if page.goes_on_after is not None:
        there = request.url.include_query_params(next=token_of(page.goes_on_after))
        headers["link"] = f'<{there.path}?{there.query}>; rel="next"'
    return Response(text.getvalue(), headers=headers, media_type=_CSV)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, its in row.items():
        if name in (WINDOW, META):
            flat |= {f"{name}_{part}": told for part, told in its.items()}
        else:
            flat[name] = orjson.dumps(its).decode() if isinstance(its, dict | list) else its
    return flat
