"""Letters, what waits, where a payload is, and the audit: /api."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Base64Bytes, Field
from starlette.requests import Request
from starlette.responses import Response

from desk.api.answers import json
from desk.api.documents import Document
from desk.letters.redrive_target import Rewrite, always
from desk.letters.selection import GROUPED_BY, Selection
from desk.letters.service import Desk
from desk.trial.payload import try_payload
from desk.waiting.lines import Stage
from desk.waiting.service import Waiting
from desk.web.access import by
from desk.web.form import payload, selection_of
from desk.whereabouts.service import Whereabouts
from gateway.http.message import read_by_name
from gateway.http.problems import Problem
from stream_jobs.waiting.codec import Ordered

OpenDesk = Callable[[], AbstractContextManager[Desk]]
AT_ONCE_MAX = 100
RATE = 500.0


class Changed(Document):
    base64: Base64Bytes | None = None


class Meant(Document):
    ids: list[str] = Field([], max_length=AT_ONCE_MAX)
    status: str = ""
    cause: str = ""
    stage: str = ""
    endpoint: str = ""
    entity_id: str = ""
    tenant: str = ""
    hook: str = ""
    software: str = ""
    since: str = ""
    until: str = ""
    up_to: str = ""
    everything: bool = False

    def selection(self) -> Selection:
        given = self.model_dump(exclude={"ids", "everything"})
        found = selection_of({"ids": self.ids, **{k: [v] for k, v in given.items()}})
        if found.is_all and not self.everything:
            raise Problem(400, "which_letters", "give ids, a filter, or everything: true")
        return found


class ToRedrive(Meant):
    per_second: float = Field(RATE, gt=0, le=100_000)
    base64: Base64Bytes | None = None


class ToDiscard(Meant):
    reason: str = Field(min_length=1, pattern=r"\S")


class ToOrder(Document):
    """For these entities, or for all that wait for this reason."""

    order: Ordered
    entities: list[str] = Field([], max_length=10_000)
    reason: str | None = None
    stage: Stage | None = None  # None: whatever they wait for


def letter_api(open_desk: OpenDesk) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get("/letters")
    def list_letters(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: str | None = None,
    ) -> Response:
        """List letters, the newest first."""
        with open_desk() as desk:
            chosen = asked_for(request)
            up_to = chosen.up_to or desk.book.mark()
            rows, following = desk.book.page(chosen, limit, after)
        return json({"letters": rows, "next": following, "up_to": up_to})

    @router.get("/groups")
    def groups(
        request: Request, by: str = "cause", limit: Annotated[int, Query(ge=1, le=1000)] = 200
    ) -> Response:
        """Count letters by cause, stage, endpoint and so on."""
        with open_desk() as desk:
            return json({"groups": desk.book.groups(grouping(by), asked_for(request), limit)})

    @router.get("/letters/{letter_id}")
    def show(letter_id: str) -> Response:
        """Show a letter with its bytes, headers and attempts."""
        with open_desk() as desk:
            return json(desk.show(letter_id))

    @router.get("/letters/{letter_id}/bytes")
    def bytes_of(letter_id: str) -> Response:
        """Give a letter's bytes as they came."""
        with open_desk() as desk:
            return Response(desk.bytes_of(letter_id), media_type="application/octet-stream")

    @router.post("/letters/{letter_id}/try")
    def try_again(letter_id: str, changed: Changed) -> Response:
        """Try a letter, as it is or with other bytes; nothing is written."""
        with open_desk() as desk:
            return json(desk.try_again(letter_id, _change(changed.base64)).told())

    @router.post("/redrives")
    def redrive(request: Request, meant: ToRedrive) -> Response:
        """Send letters on again: named ones at once, of a filter by and by."""
        selection = meant.selection()
        if meant.base64 is not None and len(selection.ids) != 1:
            raise Problem(400, "which_letter", "other bytes are for one letter: give its id alone")
        with open_desk() as desk:
            if selection.ids:
                change = _change(meant.base64)
                return json(desk.redrive(selection.ids, by(request), change)._asdict())
            return json(desk.redrives.begin(selection, meant.per_second, by(request)).told, 202)

    @router.get("/redrives")
    def redrives() -> Response:
        """List redrives of many letters, and how far they have come."""
        with open_desk() as desk:
            return json({"redrives": [one.told for one in desk.redrives.latest()]})

    @router.get("/redrives/{number}")
    def show_redrive(number: Annotated[int, Path(le=2**63 - 1)]) -> Response:
        """Show a redrive of many letters."""
        with open_desk() as desk:
            found = desk.redrives.find(number)
        if found is None:
            raise Problem(404, "no_redrive", f"there is no redrive {number}")
        return json(found.told)

    @router.post("/redrives/{number}/{verb}")
    def change(request: Request, number: int, verb: Literal["stop", "resume"]) -> Response:
        """Stop a redrive, or let it go on."""
        with open_desk() as desk:
            return json(changed_redrive(desk, number, verb, by(request)).told)

    @router.post("/discards")
    def discard(request: Request, meant: ToDiscard) -> Response:
        """Give letters up for good."""
        with open_desk() as desk:
            count = desk.book.discard(meant.selection(), by(request), meant.reason)
        return json({"discarded": count})

    @router.post("/try/{endpoint}/{entity_id:path}")
    def try_unsent(
        request: Request, endpoint: str, entity_id: str, body: Annotated[bytes, Depends(payload)]
    ) -> Response:
        """Try a payload that nobody has sent; nothing is written."""
        with open_desk() as desk:
            headers = read_by_name(request.scope["headers"])
            return json(try_payload(desk, endpoint, entity_id, headers, body))

    @router.get("/waiting")
    def list_waiting(
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
        after: str | None = None,
        reason: str | None = None,
        stage: Stage | None = None,
    ) -> Response:
        """List entities whose payloads wait."""
        with open_desk() as desk:
            page = Waiting(desk, stage).page(limit, after, reason)
        return json({"waiting": page.entities, "next": page.next})

    @router.get("/waiting/{entity_id:path}")
    def show_waiting(entity_id: str, stage: Stage | None = None) -> Response:
        """Show what an entity waits for."""
        with open_desk() as desk:
            return json(Waiting(desk, stage).show(entity_id))

    @router.post("/waiting")
    def order(request: Request, ordered: ToOrder) -> Response:
        """Have what waits tried at once, or given up."""
        if not ordered.entities and ordered.reason is None:
            raise Problem(400, "which_entities", "give entities, or the reason why they wait")
        with open_desk() as desk:
            count = Waiting(desk, ordered.stage).order(
                ordered.order, ordered.entities, ordered.reason, by(request)
            )
        return json({"ordered": count}, 202)

    @router.get("/events/{event_id:path}")
    def where(event_id: str, place: str | None = None) -> Response:
        """Say where an event is, by the id on its receipt."""
        with open_desk() as desk:
            return json(Whereabouts(desk).find(event_id, place))

    @router.get("/audit")
    def audit(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, before: int | None = None
    ) -> Response:
        """Show who did what, the newest first."""
        with open_desk() as desk:
            return json({"audit": desk.book.audit(limit, before)})

    return router


def asked_for(request: Request) -> Selection:
    query = request.query_params
    return selection_of({name: query.getlist(name) for name in query})


def _change(given: bytes | None) -> Rewrite | None:
    return None if given is None else always(given)


def grouping(by: str) -> str:
    if by not in GROUPED_BY:
        raise Problem(400, "bad_grouping", f"letters are counted by {', '.join(GROUPED_BY)}")
    return by


def changed_redrive(desk: Desk, number: int, verb: str, who: str) -> Any:
    status = "stopped" if verb == "stop" else "running"
    changed = desk.redrives.change(number, status, who)
    if changed is None:
        raise Problem(409, "no_redrive", f"there is no redrive {number} that is not done")
    return changed
