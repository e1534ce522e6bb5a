"""Dead letters for people: found, tried, mended, sent on again or given up; and the audit."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.api.letters import AT_ONCE_MAX, RATE, OpenDesk, asked_for, changed_redrive, grouping
from desk.letters.dry_run import Trial
from desk.letters.redrive_target import Rewrite, always
from desk.letters.service import Desk
from desk.pages import letter_list, letter_page
from desk.web.access import by, csrf_of
from desk.web.form import FormFields, bytes_of, first, form, selection_of
from desk.web.shell import shown
from gateway.http.problems import Problem

_ROWS = 100
Form = Annotated[FormFields, Depends(form)]


def letter_pages(open_desk: OpenDesk) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    def letters(request: Request) -> Response:
        query = request.query_params
        chosen, counted = asked_for(request), grouping(query.get("by", "cause"))
        if "status" not in query:
            chosen = chosen._replace(status="parked")
        with open_desk() as desk:
            meant = chosen._replace(up_to=chosen.up_to or desk.book.mark())
            groups = desk.book.groups(counted, chosen)
            rows, following = desk.book.page(chosen, _ROWS, query.get("after"))
            parked = desk.book.count(meant._replace(status="parked"))
        if chosen.status not in (None, "parked"):
            parked = 0
        content = letter_list.letters(
            meant, counted, groups, rows, following, parked, csrf_of(request)
        )
        return shown(request, "Letters", content)

    @router.get("/letters/{letter_id}")
    def letter(request: Request, letter_id: str) -> Response:
        with open_desk() as desk:
            return _letter(request, desk, letter_id)

    @router.post("/letters/{letter_id}/try")
    def try_again(request: Request, letter_id: str, fields: Form) -> Response:
        with open_desk() as desk:
            change = _change(desk, letter_id, fields)
            return _letter(request, desk, letter_id, fields, desk.try_again(letter_id, change))

    @router.post("/letters/{letter_id}/redrive")
    def redrive_one(request: Request, letter_id: str, fields: Form) -> Response:
        with open_desk() as desk:
            sent = desk.redrive([letter_id], by(request), _change(desk, letter_id, fields))
            said = sent.refusals.get(letter_id, "It is on its way.")
            return _letter(request, desk, letter_id, told=said)

    @router.post("/redrive")
    def redrive(request: Request, fields: Form) -> Response:
        chosen = selection_of(fields)
        if first(fields, "all") != "yes":
            if not 0 < len(chosen.ids) <= AT_ONCE_MAX:
                raise Problem(400, "which_letters", f"choose 1 to {AT_ONCE_MAX} letters")
            with open_desk() as desk:
                sent = desk.redrive(chosen.ids, by(request))
            said = f"{len(sent.ids)} sent on, {len(sent.refusals)} refused."
            refusals = [{"letter": id_, "refusal": why} for id_, why in sent.refusals.items()]
            return shown(request, "Redrive", letter_list.refusals(refusals), said)
        with open_desk() as desk:
            desk.redrives.begin(chosen, _rate(fields), by(request))
        return RedirectResponse("/redrives", 303)

    @router.get("/redrives")
    def redrives(request: Request) -> Response:
        with open_desk() as desk:
            content = letter_list.redrives(desk.redrives.latest(), csrf_of(request))
        return shown(request, "Redrives", content)

    @router.post("/redrives/{number}/{verb}")
    def change(request: Request, number: int, verb: str, _: Form) -> Response:
        with open_desk() as desk:
            changed_redrive(desk, number, verb, by(request))
        return RedirectResponse("/redrives", 303)

    @router.post("/discard")
    def discard(request: Request, fields: Form) -> Response:
        reason = first(fields, "reason").strip()
        if not reason:
            raise Problem(400, "no_reason", "say why these letters are given up")
        with open_desk() as desk:
            count = desk.book.discard(selection_of(fields), by(request), reason)
        return shown(request, "Discard", [], f"{count} discarded.")

    @router.get("/audit")
    def audit(request: Request) -> Response:
        with open_desk() as desk:
            return shown(request, "Audit", letter_list.audit(desk.book.audit(_ROWS)))

    return router


def _letter(
    request: Request,
    desk: Desk,
    letter_id: str,
    fields: FormFields | None = None,
    trial: Trial | None = None,
    told: str = "",
) -> Response:
    up_to, found = desk.book.mark(), desk.show(letter_id)
    its = found["payload_bytes"] or {}
    text = its.get("text")
    # a browser puts another character in the place of NUL
    written = "base64" if text is None or "\0" in text else "text"
    edited = its.get(written, "")
    if fields is not None:
        written, edited = first(fields, "form"), first(fields, "bytes")
    content = letter_page.letter(found, edited, written, trial, csrf_of(request), up_to)
    return shown(request, "Letter", content, told)


def _change(desk: Desk, letter_id: str, fields: FormFields) -> Rewrite | None:
    """None where the form still says what the letter does: its own bytes are not to be touched."""
    given, own = bytes_of(fields), desk.bytes_of(letter_id)
    as_typed = own.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return None if given in (own, as_typed) else always(given)


def _rate(fields: FormFields) -> float:
    try:
        rate = float(first(fields, "per_second") or RATE)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 100_000:
        raise Problem(400, "bad_rate", "letters a second are a number above 0")
    return rate
