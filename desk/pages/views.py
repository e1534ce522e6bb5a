"""Views for people: how far each is, and its rows."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from desk.views.service import ViewDesk, ViewPage
from desk.web.components import field, table
from desk.web.html import Html, tag
from desk.web.shell import shown
from gateway.views.page import CannotReadError
from shared.folding.snapshot import META
from shared.tables.view_rows import WINDOW

_TITLE = "Views"
_COLUMNS = (
    *("view", "version", "state", "rows", "behind", "watermark", "late", "corrections"),
    *("results", "key", "of"),
)


def view_pages(views: ViewDesk) -> APIRouter:
    router = APIRouter(prefix="/views")

    @router.get("")
    def all_of_them(request: Request) -> Response:
        return shown(request, _TITLE, listed(views.all()))

    @router.get("/{name}")
    async def one(request: Request, name: str) -> Response:
        asked = {key: value for key, value in request.query_params.items() if value.strip()}
        try:
            content = told_of(await views.page(name, asked), asked)
        except CannotReadError:
            said = "The gateway beside this desk is still reading its rows from Kafka."
            content = [tag("h2", f"View {name}"), tag("p", said, class_="wrong")]
        return shown(request, _TITLE, content)

    return router


def listed(found: Sequence[Mapping[str, Any]]) -> list[Html]:
    rows = [
        {
            **one,
            "view": tag("a", one["name"], href=_address(one["name"], {"version": one["version"]})),
            "behind": None if one["behind_s"] is None else f"{one['behind_s']:.0f} s",
        }
        for one in found
    ]
    return [tag("h2", _TITLE), table(_TITLE, _COLUMNS, rows)]


def told_of(page: ViewPage, asked: Mapping[str, str]) -> list[Html]:
    view = page.view
    keys = [name for name in view.key if name != WINDOW]
    rows = [_flat(row) for row in page.rows]
    columns = [*rows[0]] if rows else keys
    more = {**asked, "next": page.next or ""}
    return [
        tag("h2", f"View {view.name}, version {view.version}"),
        tag(
            "form",
            tag(
                "fieldset",
                tag("legend", "Which rows"),
                *(field(name, name, value=asked.get(name)) for name in keys),
                field("sort", "Sort", value=asked.get("sort"), placeholder="a column, or -column"),
                tag("input", type="hidden", name="version", value=view.version),
                tag("button", "Show", class_="does"),
            ),
            method="get",
            action=f"/views/{quote(view.name)}",
            role="search",
        ),
        table("Rows", columns, rows),
        tag("p", tag("a", "Further rows", href=_address(view.name, more)))
        if page.next
        else tag("p", "These are all.", class_="quiet"),
    ]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    window = row.get(WINDOW)
    own = {name: value for name, value in row.items() if name not in (META, WINDOW)}
    return {"from": window["start"], "until": window["end"], **own} if window else own


def _address(name: str, asked: Mapping[str, Any]) -> str:
    return f"/views/{quote(name)}?{urlencode(asked)}"
