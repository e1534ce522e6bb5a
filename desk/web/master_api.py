"""Master data for programs: /api/master. A row's version is its ETag."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Query
from starlette.requests import Request
from starlette.responses import Response

from clients.postgres import store
from clients.postgres.master_rows import NOT_THERE, MasterRow
from desk.letters.store import LetterBook
from desk.master.service import MasterTables
from desk.web.access import by
from gateway.http.problems import Problem
from shared.flow import load_flow
from shared.settings import Settings


def master_api(settings: Settings) -> APIRouter:
    router = APIRouter(prefix="/api/master")
    flow = load_flow(settings.flow)

    @contextmanager
    def open_tables() -> Iterator[MasterTables]:
        url = settings.postgres_url.get_secret_value()
        with store.connect(url, "desk") as connection:
            yield MasterTables(LetterBook(connection), flow)

    @router.get("")
    def tables() -> Response:
        with open_tables() as master:
            return _json({"tables": master.tables()})

    @router.get("/{table}")
    def page(
        table: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000, after: str = ""
    ) -> Response:
        with open_tables() as master:
            rows, following = master.page(table, limit, after)
        return _json({"rows": [_told(row) for row in rows], "next": following})

    @router.get("/{table}/{key:path}")
    def get(table: str, key: str) -> Response:
        with open_tables() as master:
            return _row(master.get(table, key))

    @router.put("/{table}/{key:path}")
    def put(request: Request, table: str, key: str, fields: Annotated[Any, Body()]) -> Response:
        with open_tables() as master:
            return _row(master.set(table, key, fields, by(request), _version(request)))

    @router.delete("/{table}/{key:path}")
    def delete(request: Request, table: str, key: str) -> Response:
        with open_tables() as master:
            master.delete(table, key, by(request), _version(request))
        return Response(status_code=204)

    return router


def _version(request: Request) -> str | None:
    """Which one the row must have, if the caller has said so."""
    wanted, unwanted = (request.headers.get(name) for name in ("if-match", "if-none-match"))
    if unwanted is not None:
        if unwanted.strip() != "*" or wanted is not None:
            raise Problem(400, "bad_condition", "If-None-Match may be * alone, without If-Match")
        return NOT_THERE
    if wanted is None:
        return None
    version = wanted.strip().strip('"')
    if not version or version == "*" or "," in version:
        raise Problem(400, "bad_condition", "If-Match is one ETag, as GET has shown it")
    return version


def _row(row: MasterRow) -> Response:
    return _json(_told(row), {"etag": f'"{row.version}"'})


def _told(row: MasterRow) -> dict[str, Any]:
    told = row._asdict()
    del told["version"]
    return told


def _json(document: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(document), 200, headers, media_type="application/json")
