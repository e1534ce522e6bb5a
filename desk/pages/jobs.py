"""The jobs for people: how each is, and that it pauses, goes on, or makes its state anew."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.jobs.service import JobDesk
from desk.web.access import by, csrf_of
from desk.web.components import facts, field, form, table, text
from desk.web.form import FormFields, first
from desk.web.form import form as form_of
from desk.web.html import Html, tag
from desk.web.shell import shown
from gateway.http.problems import Problem

_TITLE = "Jobs"
_COLUMNS = ("job", "state", "behind", "records", "detail")
_FACTS = ("state", "detail", "behind", "records", "does", "ordered")
Form = Annotated[FormFields, Depends(form_of)]


def job_pages(jobs: JobDesk) -> APIRouter:
    router = APIRouter(prefix="/jobs")

    @router.get("")
    def all_of_them(request: Request) -> Response:
        return shown(request, _TITLE, listed(jobs.all()))

    @router.get("/{job}")
    def one(request: Request, job: str) -> Response:
        return shown(request, _TITLE, told_of(jobs.show(job), csrf_of(request)))

    @router.post("/{job}")
    def order(request: Request, job: str, fields: Form) -> Response:
        why, who = first(fields, "why").strip(), by(request)
        match first(fields, "order"):
            case "pause":
                jobs.pause(job, why, by=who)
            case "resume":
                jobs.resume(job, by=who)
            case "rebuild":
                jobs.rebuild(job, why, by=who)
            case _:
                raise Problem(400, "which_order", "an order is one of pause, resume, rebuild")
        return RedirectResponse(f"/jobs/{quote(job)}", 303)

    return router


def _row(job: Mapping[str, Any]) -> dict[str, Any]:
    lag_s, order = job["lag_s"], job["order"]
    return {
        **job,
        "behind": None if lag_s is None else f"{lag_s:.0f} s",
        "records": job["lag_records"],
        "ordered": order and f"{order['order']}, by {order['by']}, {order['at']} {order['why']}",
    }


def listed(jobs: Sequence[Mapping[str, Any]]) -> list[Html]:
    rows = [
        {**_row(one), "job": tag("a", one["job"], href=f"/jobs/{quote(one['job'])}")}
        for one in jobs
    ]
    return [tag("h2", _TITLE), table(_TITLE, _COLUMNS, rows)]


def told_of(job: Mapping[str, Any], csrf: str) -> list[Html]:
    heading = [tag("h2", f"Job {text(job['job'])}"), facts(_FACTS, _row(job))]
    if not job["takes_orders"]:
        return heading
    orders = [_button("Pause", "pause"), " ", _button("Go on", "resume")]
    if job["can_be_rebuilt"]:
        orders += [" ", _button("Make its state anew", "rebuild")]
    return [
        *heading,
        form(
            f"/jobs/{quote(job['job'])}",
            csrf,
            tag("fieldset", tag("legend", "Orders"), field("why", "Why"), *orders),
        ),
        tag(
            "p",
            "It obeys within seconds. What comes for a job that pauses waits in Kafka, and /health "
            "says that it is paused, and by whom.",
            class_="quiet",
        ),
    ]


def _button(name: str, order: str) -> Html:
    return tag("button", name, name="order", value=order, class_="does")
