"""GET /views and GET /views/{name}: what the flow's views say, and how far they are behind what was
accepted."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import Path, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.monitor.job_news import JobNews
from gateway.pages.csv_page import CSV, csv_answer, wants_csv
from gateway.pages.turns import Turns
from gateway.state.pipeline_lag import Freshness, Pipeline
from gateway.state_view.reader import StateView
from gateway.streams.frames import EVENT_STREAM
from gateway.views.copied_topic import warming
from gateway.views.page import CannotReadError, page_of, sorted_page_of
from gateway.views.selection import described_parameters, is_closed, only_of_changes
from gateway.views.view_request import asked_by, may_read
from shared.flow_table import Flow
from shared.folding.snapshot import META
from shared.model import View
from shared.tables.view_rows import WINDOW
from shared.timestamps import now_ms, to_rfc3339

_SORTS_MAX = 16  # that wait for their turn, or have it
_TOO_MANY_SORTS = "too many ask for rows in an order of their own at once"
_STILL_READ = "its rows are still being read from Kafka"
_LIST_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The views that this caller may read, and how far each of them is."},
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
}
_ROWS_ANSWERS: dict[int | str, dict[str, Any]] = {
    **_LIST_ANSWERS,
    200: {
        "description": "Rows, in the order of their keys or as `sort` says, and how far the "
        "view is. As text/event-stream without an end: rows, then each change, with an `id` from "
        "which any gateway goes on.",
        "content": {kind: {"schema": {"type": "string"}} for kind in (CSV, EVENT_STREAM)},
    },
    400: {"description": "An unknown parameter, or a value that cannot be read."},
    404: {"description": "No such view, or none that this caller may read."},
    410: {"description": "Of a stream: the view's topic is another one now. Begin without the id."},
    429: {"description": "This caller has so many streams that the room left is for others."},
    503: {
        "description": "The rows have not been read from Kafka yet since the first start; of a "
        "stream also: the gateway ends, or has as many streams as it may."
    },
}


def view_routes(
    flow: Flow, source: StateView, news: JobNews, pipeline: Pipeline, stale_after_s: float
) -> list[BaseRoute]:
    names = [*dict.fromkeys(row.name for row in flow.views)]
    turns = Turns(_SORTS_MAX, "too_many_sorts", _TOO_MANY_SORTS)

    async def views(request: Request) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        listed = [
            _described(row, flow.view(row.name) is row) | progress_of(row, counts_of(row))
            for row in flow.views
            if may_read(caller, row)
        ]
        return Response(orjson.dumps({"views": listed}), media_type="application/json")

    async def view(
        name: Annotated[str, Path(json_schema_extra={"enum": names})], request: Request
    ) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        row, selection = asked_by(caller, flow, name, request.query_params)
        if selection.from_now:
            raise only_of_changes()
        counts, read_to_ms = counts_of(row), times_of(row).get("read_to_ms")
        watermark_ms = watermark_of(row)
        try:
            if selection.order is None:
                page = await page_of(source, row, selection, watermark_ms)
            else:
                order = selection.order
                page = await sorted_page_of(source, row, selection, order, watermark_ms, turns)
        except CannotReadError:
            raise warming(row) from None
        shown = [_with_closed(one, watermark_ms) for one in page.rows]
        if wants_csv(request):
            flat = [_flat(one) for one in shown]
            return csv_answer(request, [*flat[0]] if flat else row.key, flat, page.next)
        body = {
            "view": row.name,
            "version": row.version,
            "rows": shown,
            "next": page.next,
            # as of before the rows, which may be newer
            "read_to": to_rfc3339(int(read_to_ms)) if read_to_ms else None,
            **progress_of(row, counts),
        }
        return Response(orjson.dumps(body), media_type="application/json")

    times: dict[str, Mapping[str, float]] = {}

    def watermark_of(row: View) -> float | None:
        return times_of(row).get("watermark_ms") or None

    def times_of(row: View) -> Mapping[str, float]:
        """The last ones that this node's copy of the rows has come up to: what the job says may be
        here before them."""
        status = news.statuses([row.job])[row.job]
        caught_up_ms = source.topic_progress(row.topic).caught_up_ms
        if status and caught_up_ms and caught_up_ms >= status.said["at_ms"]:
            times[row.topic] = status.of_view
        return times.get(row.topic, {})

    def counts_of(row: View) -> dict[str, float]:
        status = news.statuses([row.job])[row.job]
        return status.of_view if status else {}

    def progress_of(row: View, counts: Mapping[str, float]) -> dict[str, Any]:
        """How far the view is, and what it has left out."""
        watermark_ms = watermark_of(row)
        found = {
            "watermark": None if watermark_ms is None else to_rfc3339(int(watermark_ms)),
            "late": counts.get("late", 0),
            "corrections": counts.get("corrections", 0),
            "stragglers": counts.get("stragglers", 0),
        }
        progress = source.topic_progress(row.topic)
        if not progress.warm or progress.caught_up_ms is None:
            return {**found, "pipeline_lag_s": None, "stale": True, "stale_because": _STILL_READ}
        view_lag_s = max(0, now_ms() - progress.caught_up_ms) / 1000
        freshness = Freshness(pipeline.of(row), view_lag_s, stale_after_s)
        return {
            **found,
            "pipeline_lag_s": freshness.lag_s,
            "stale": bool(freshness.why_stale),
            **({"stale_because": freshness.why_stale} if freshness.why_stale else {}),
        }

    if not flow.views:
        return []
    return [
        APIRoute("/views", views, methods=["GET"], responses=_LIST_ANSWERS, response_model=None),
        APIRoute(
            "/views/{name}",
            view,
            methods=["GET"],
            responses=_ROWS_ANSWERS,
            response_model=None,
            openapi_extra={"parameters": described_parameters(flow.views)},
        ),
    ]


def _described(row: View, is_shown: bool) -> dict[str, Any]:
    return {
        "name": row.name,
        "of": row.of,
        "key": row.key,
        "results": row.results,
        "late_after_s": row.late_after_s,
        "version": row.version,
        "shown": is_shown,
    }


def _with_closed(row: dict[str, Any], watermark_ms: float | None) -> dict[str, Any]:
    if WINDOW in row:
        row[META]["closed"] = is_closed(row, watermark_ms)
    return row


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, its in row.items():
        if name in (WINDOW, META):
            flat |= {f"{name}_{part}": value for part, value in its.items()}
        else:
            flat[name] = its
    return flat
