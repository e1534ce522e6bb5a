"""Credentials for people: which there are, whose, and until when. A secret is shown once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from desk.credentials.service import (
    DAYS_MAX,
    Added,
    BadCredentialError,
    CredentialDesk,
    Owner,
    caller_of,
)
from desk.web.access import by, csrf_of
from desk.web.components import choice, facts, field, form, table, text
from desk.web.form import FormFields, first
from desk.web.form import form as form_of
from desk.web.html import Html, tag
from desk.web.shell import shown
from gateway.auth.caller import May
from gateway.auth.credentials import Kind

_ROWS = 500
_COLUMNS = ("key_id", "role", "may", "device", "tenant", "kind", "made", "not_after")
_MOST = "administer"
_TITLE = "Credentials"
Form = Annotated[FormFields, Depends(form_of)]


def credential_pages(credentials: CredentialDesk, *, somebody_asks: bool) -> APIRouter:
    """`somebody_asks`: the gateway wants to know who it is."""
    router = APIRouter(prefix="/credentials")

    @router.get("")
    def all_of_them(request: Request) -> Response:
        told = "" if somebody_asks else "The gateway asks nobody for one: set HEADRACE_AUTH."
        return shown(request, _TITLE, listed(credentials.all(), csrf_of(request)), told)

    @router.post("")
    def add(request: Request, fields: Form) -> Response:
        given = {name: first(fields, name).strip() for name in ("device", "tenant", "days")}
        kind: Kind = "hmac" if first(fields, "kind") == "hmac" else "token"
        role, may = first(fields, "role"), first(fields, "may") or _MOST
        caller = caller_of(
            role,
            given["device"] or None,
            given["tenant"],
            may=may if role == "operator" else _MOST,
        )
        added = credentials.add(caller, kind, _days(given["days"]), by=by(request))
        return shown(request, _TITLE, secret(added))

    @router.get("/{key_id}")
    def one(request: Request, key_id: str) -> Response:
        return shown(request, _TITLE, told_of(credentials.show(key_id), csrf_of(request)))

    @router.post("/{key_id}/revoke")
    def revoke(request: Request, key_id: str, _: Form) -> Response:
        credentials.revoke(key_id, by=by(request))
        return RedirectResponse("/credentials", 303)

    return router


def _days(given: str) -> int | None:
    if not given:
        return None
    is_short = given.isdecimal() and len(given) <= len(str(DAYS_MAX))  # Python reads 4,300 digits
    if not is_short or not 1 <= int(given) <= DAYS_MAX:
        raise BadCredentialError(f"days: a number from 1 to {DAYS_MAX}")
    return int(given)


def rows_of(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**one, "key_id": tag("a", one["key_id"], href=f"/credentials/{quote(one['key_id'])}")}
        for one in found
    ]


def listed(found: Sequence[Mapping[str, Any]], csrf: str) -> list[Html]:
    more = f"The newest {text(_ROWS)} of {text(len(found))}." if len(found) > _ROWS else None
    return [
        tag("h2", _TITLE),
        table(_TITLE, _COLUMNS, rows_of(found[:_ROWS])),
        *([tag("p", more, class_="quiet")] if more else []),
        _to_add(csrf),
    ]


def _to_add(csrf: str) -> Html:
    return form(
        "/credentials",
        csrf,
        tag(
            "fieldset",
            tag("legend", "Add one"),
            choice("role", "Whose", get_args(Owner), "device"),
            field("device", "Device", placeholder="of a device its id"),
            field("tenant", "Tenant", placeholder="none"),
            choice("may", "An operator may", get_args(May), _MOST),
            choice("kind", "Kind", get_args(Kind), "token"),
            field("days", "Days", placeholder="without end", inputmode="numeric"),
            tag("button", "Add", class_="does"),
        ),
    )


def secret(added: Added) -> list[Html]:
    return [
        tag("h2", f"Credential {added.key_id}"),
        tag("p", "This is shown once, and kept nowhere. Give it to its owner now."),
        tag("pre", added.text, tabindex=0, aria_label=added.name),
        tag("p", added.use),
        tag("p", tag("a", "All credentials", href="/credentials")),
    ]


def told_of(credential: Mapping[str, Any], csrf: str) -> list[Html]:
    key_id = credential["key_id"]
    return [
        tag("h2", f"Credential {key_id}"),
        facts(_COLUMNS, credential),
        form(f"/credentials/{quote(key_id)}/revoke", csrf, tag("button", "Revoke", class_="does")),
        tag("p", "Each gateway that reaches Kafka refuses it within seconds.", class_="quiet"),
    ]
