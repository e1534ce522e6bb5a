"""Master data for programs: /api/master. A row's version is its ETag."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from clients.postgres.master_rows import NOT_THERE, MasterRow
from desk.api.answers import json
from desk.api.documents import storable
from desk.letters.store import open_book
from desk.master.row_file import rows_of
from desk.master.service import MasterTables
from desk.web.access import by
from desk.web.form import read_body
from gateway.http.problems import Problem, retry_after
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.settings import Settings

_FILE_BYTES_MAX = 64 * 1024 * 1024
KINDS = {"text/csv": "csv", "application/x-ndjson": "ndjson", "application/json": "json"}
_SOON = retry_after(5)


@contextmanager
def open_tables(settings: Settings, flow: Flow) -> Iterator[MasterTables]:
    with open_book(settings) as book:
        yield MasterTables(book, flow)


def master_api(settings: Settings) -> APIRouter:
    router = APIRouter(prefix="/api/master")
    flow = load_flow(settings.flow)
    importing = threading.Lock()  # a file's rows are many times its size in memory

    opened = partial(open_tables, settings, flow)

    @router.get("")
    def tables() -> Response:
        """List the tables of master data."""
        with opened() as master:
            return json({"tables": master.tables()})

    @router.get("/{table}")
    def page(
        table: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000, after: str = ""
    ) -> Response:
        """List the rows of a table, by key."""
        with opened() as master:
            rows, following = master.page(table, limit, after)
        return json({"rows": [_told(row) for row in rows], "next": following})

    @router.post("/{table}/import")
    def import_(
        request: Request,
        table: str,
        content: Annotated[bytes, Depends(_file)],
        replace: bool = False,
        dry_run: bool = False,
        delimiter: Annotated[str, Query(min_length=1, max_length=1)] = ",",
    ) -> Response:
        """Take in a file of rows, or only say what would change."""
        kind = _kind(request)
        if not importing.acquire(blocking=False):
            raise Problem(503, "import_at_work", "another import is at work", headers=_SOON)
        try:
            with opened() as master:
                rows = rows_of(master.written_table(table), kind, content, delimiter)
                if dry_run:
                    return json(master.difference(table, rows).told())
                found = master.take_in(table, rows, by(request), replace=replace)
        finally:
            importing.release()
        return json(found.counts(replace=replace))

    @router.get("/{table}/{key:path}")
    def get(table: str, key: str) -> Response:
        """Show a row; its ETag is its version."""
        with opened() as master:
            return _row(master.get(table, key))

    @router.put("/{table}/{key:path}")
    def put(
        request: Request,
        table: str,
        key: str,
        fields: Annotated[Any, Body(), BeforeValidator(storable)],
    ) -> Response:
        """Set a row."""
        with opened() as master:
            return _row(master.set(table, key, fields, by(request), _version(request)))

    @router.delete("/{table}/{key:path}")
    def delete(request: Request, table: str, key: str) -> Response:
        """Delete a row."""
        with opened() as master:
            master.delete(table, key, by(request), _version(request))
        return Response(status_code=204)

    return router


def sources_api(settings: Settings) -> APIRouter:
    router = APIRouter(prefix="/api/master-sources")
    flow = load_flow(settings.flow)

    @router.get("")
    def sources() -> Response:
        """List tables that are fed from elsewhere, and how they are."""
        with open_tables(settings, flow) as master:
            return json({"sources": master.sources()})

    @router.get("/{table}/refused")
    def refused(table: str, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> Response:
        """List rows that a source gave and that could not be taken."""
        with open_tables(settings, flow) as master:
            rows = [one._asdict() for one in master.refusals(table, limit)]
        return json({"refused": rows})

    return router


async def _file(request: Request) -> bytes:
    return await read_body(request, _FILE_BYTES_MAX, "a file of rows")


def _kind(request: Request) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in KINDS:
        known = ", ".join(KINDS)
        raise Problem(415, "unknown_kind", f"content-type says what the file is: {known}")
    return KINDS[media_type]


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
    return json(_told(row), headers={"etag": f'"{row.version}"'})


def _told(row: MasterRow) -> dict[str, Any]:
    told = row._asdict()
    del told["version"]
    return told
