"""A page as CSV, for who asks for it: the next one is a `Link`."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

CSV = "text/csv"


def wants_csv(request: Request) -> bool:
    return CSV in request.headers.get("accept", "")


def csv_answer(
    request: Request, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], after: str | None
) -> Response:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(columns)
    out.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    headers = {}
    if after is not None:
        there = request.url.include_query_params(next=after)
        headers["link"] = f'<{there.path}?{there.query}>; rel="next"'
    return Response(text.getvalue(), headers=headers, media_type=CSV)


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else value
