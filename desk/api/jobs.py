"""Jobs for programs. An order is taken at once; the job obeys it by itself, and says so."""

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from desk.api.answers import json
from desk.api.documents import Document
from desk.jobs.service import JobDesk
from desk.web.access import by
from shared.published.job_orders import WHY_MAX


class Ordered(Document):
    why: str = Field("", max_length=WHY_MAX)


def job_api(jobs: JobDesk) -> APIRouter:
    router = APIRouter(prefix="/api/jobs")

    @router.get("")
    def all_of_them() -> Response:
        """List jobs, how each is and what is wanted of it."""
        return json({"jobs": jobs.all()})

    @router.get("/{job}")
    def show(job: str) -> Response:
        """Show a job."""
        return json(jobs.show(job))

    @router.post("/{job}/pause")
    def pause(request: Request, job: str, order: Ordered | None = None) -> Response:
        """Pause a job: what comes for it waits in Kafka."""
        jobs.pause(job, order.why if order else "", by=by(request))
        return json(jobs.show(job), 202)

    @router.post("/{job}/resume")
    def resume(request: Request, job: str) -> Response:
        """Let a job go on where it left off."""
        jobs.resume(job, by=by(request))
        return json(jobs.show(job), 202)

    @router.post("/{job}/rebuild")
    def rebuild(request: Request, job: str, order: Ordered | None = None) -> Response:
        """Have a job make its state anew from topics."""
        jobs.rebuild(job, order.why if order else "", by=by(request))
        return json(jobs.show(job), 202)

    return router
