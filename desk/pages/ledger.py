"""The ledger for people: each payload has one end, or is in flight, or is missing."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from desk.ledger.service import LedgerDesk
from desk.web.components import table, text
from desk.web.html import Html, tag
from desk.web.shell import shown
from shared.published.ledger import TERMS

_TITLE = "Ledger"
_COLUMNS = ("endpoint", *TERMS)


def ledger_pages(ledger: LedgerDesk) -> APIRouter:
    router = APIRouter(prefix="/ledger")

    @router.get("")
    def now(request: Request) -> Response:
        return shown(request, _TITLE, told_of(ledger.now()))

    return router


def told_of(found: Mapping[str, Any] | None) -> list[Html]:
    heading = tag("h2", _TITLE)
    if found is None:
        said = "Nobody knows: who keeps it, which is the relay's process, has not said a word."
        return [heading, tag("p", said, class_="wrong")]
    rows = [*found["endpoints"]]
    if len(rows) > 1:
        rows.append({"endpoint": "all", **{term: found[term] for term in TERMS}})
    derived = [{"end": end, "events": count} for end, count in found["derived"].items() if count]
    return [
        heading,
        _balance(found),
        *_recounting(found["recounting"]),
        table(_TITLE, _COLUMNS, rows),
        tag("p", _as_of(found), class_="wrong" if found["old"] else "quiet"),
        tag("h3", "Events that came from no payload"),
        table("Events that came from no payload", ("end", "events"), derived),
        *_missing(found["missing"]),
    ]


def _balance(found: Mapping[str, Any]) -> Html:
    if found["difference"] < 0:
        said = f"{text(-found['difference'])} ends are of no payload that has come."
        return tag("p", said, class_="wrong")
    if found["difference"]:
        said = f"{text(found['difference'])} payloads should have an end by now, and have none."
        return tag("p", said, class_="wrong")
    said = f"Each of {text(found['received'])} payloads has its end"
    flying = f", but for {text(found['in_flight'])} in flight" if found["in_flight"] else ""
    return tag("p", f"{said}{flying}.")


def _recounting(entities: int) -> list[Html]:
    if not entities:
        return []
    said = f"{text(entities)} entities have counted a repeat twice, and are being folded anew."
    return [tag("p", said, class_="wrong")]


def _as_of(found: Mapping[str, Any]) -> str:
    why = f": {found['detail']}" if found["detail"] else ""
    return f"As of {found['as_of']}{why}."


def _missing(places: list[str]) -> list[Html]:
    if not places:
        return []
    listed = [{"place": place} for place in places]
    return [
        tag("h3", "Missing"),
        table("Missing", ("place",), listed),
        tag("p", "./headrace tail shows what lies there.", class_="quiet"),
    ]
