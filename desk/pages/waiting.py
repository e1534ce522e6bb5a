"""What waits, for people: why, since when, and that it is tried at once, or given up."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.api.letters import OpenDesk
from desk.waiting.lines import Stage
from desk.waiting.service import Waiting
from desk.web.access import by, csrf_of
from desk.web.components import choice, field, form, table
from desk.web.form import FormFields, first
from desk.web.form import form as form_of
from desk.web.html import Html, tag
from desk.web.rights import for_who_may
from desk.web.shell import shown
from gateway.http.problems import Problem
from stream_jobs.waiting.codec import Ordered

_TITLE = "Waiting"
_ROWS = 200
_COLUMNS = ("entity", "stage", "payloads", "since", "reason", "tries", "next_try", "detail")
Form = Annotated[FormFields, Depends(form_of)]


def waiting_pages(open_desk: OpenDesk) -> APIRouter:
    router = APIRouter(prefix="/waiting")

    @router.get("")
    def listed(
        request: Request, reason: str = "", stage: str = "any", after: str | None = None
    ) -> Response:
        asked = {"reason": reason.strip(), "stage": stage}
        with open_desk() as desk:
            page = Waiting(desk, _stage(stage)).page(_ROWS, after, asked["reason"] or None)
        content = [
            tag("h2", "What waits"),
            _filters(asked["reason"], stage),
            to_order(page.entities, stage, csrf_of(request)),
            *([_more(asked, page.next)] if page.next else []),
        ]
        return shown(request, _TITLE, content)

    @router.post("")
    def order(request: Request, fields: Form) -> Response:
        ids, what = [*fields.get("ids", ())], first(fields, "order")
        if not 0 < len(ids) <= _ROWS:
            raise Problem(400, "which_entities", f"choose 1 to {_ROWS} entities")
        if what not in get_args(Ordered):
            raise Problem(400, "which_order", f"an order is one of {', '.join(get_args(Ordered))}")
        with open_desk() as desk:
            waiting = Waiting(desk, _stage(first(fields, "stage")))
            waiting.order(cast(Ordered, what), ids, None, by(request))
        return RedirectResponse("/waiting", 303)

    return router


def _stage(given: str) -> Stage | None:
    return cast(Stage, given) if given in get_args(Stage) else None


def rows(found: Sequence[Mapping[str, Any]], *, with_choice: bool = False) -> Html:
    def chosen(row: Mapping[str, Any]) -> Html:
        name = _name(row)
        return tag("input", type="checkbox", name="ids", value=name, aria_label=f"choose {name}")

    shown_rows = [
        {
            **row,
            "": chosen(row) if with_choice else None,
            "entity": tag("a", _name(row), href=f"/entities/{quote(row['entity_id'])}"),
        }
        for row in found
    ]
    columns = ("", *_COLUMNS) if with_choice else _COLUMNS
    return table("What waits", columns, shown_rows)


def _name(row: Mapping[str, Any]) -> str:
    """The name that it is ordered by, as Waiting tells it."""
    return f"{row['entity_id']} {row['alone']}" if row["alone"] else str(row["entity_id"])


def _filters(reason: str, stage: str) -> Html:
    return tag(
        "form",
        tag(
            "fieldset",
            tag("legend", "Which"),
            field("reason", "Reason", value=reason, placeholder="missing_device"),
            choice("stage", "Stage", ("any", *get_args(Stage)), stage),
            tag("button", "Show", class_="does"),
        ),
        method="get",
        action="/waiting",
        role="search",
    )


def to_order(found: Sequence[Mapping[str, Any]], stage: str, csrf: str) -> Html:
    return form(
        "/waiting",
        csrf,
        tag("input", type="hidden", name="stage", value=stage),
        rows(found, with_choice=True),
        tag(
            "p",
            tag("button", "Try the chosen ones now", name="order", value="try"),
            " ",
            tag(
                "button",
                "Give the chosen ones up",
                name="order",
                value="give_up",
                class_="ends",
            ),
            class_=for_who_may("operate"),
        )
        if found
        else None,
        is_for_all=True,
    )


def _more(asked: Mapping[str, str], after: str) -> Html:
    return tag("p", tag("a", "More", href="/waiting?" + urlencode({**asked, "after": after})))
