"""What belongs to no page: signing in, the style and the script, and that the desk lives."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from desk.web import shell
from desk.web.access import COOKIE, check_operator, csrf_of
from desk.web.components import field, form
from desk.web.form import FormFields, first, sign_in_form
from desk.web.form import form as form_of
from desk.web.html import tag
from gateway.auth.authenticate import Authenticator
from gateway.http.problems import Problem

_FILES = Path(shell.__file__).parent
_STYLE, _SCRIPT = ((_FILES / name).read_text() for name in ("style.css", "live.js"))
Form = Annotated[FormFields, Depends(form_of)]


def site(who: Authenticator | None, *, secure_cookie: bool) -> APIRouter:
    router = APIRouter()

    @router.get("/livez")
    def livez() -> Response:
        return PlainTextResponse("ok")

    @router.get("/style.css")
    def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    @router.get("/live.js")
    def script() -> Response:
        return Response(_SCRIPT, media_type="text/javascript")

    @router.get("/login")
    def login(request: Request) -> Response:
        return HTMLResponse(login_page(csrf_of(request), wrong=False))

    @router.post("/login")
    def sign_in(request: Request, fields: Annotated[FormFields, Depends(sign_in_form)]) -> Response:
        token = first(fields, "token").strip()
        try:
            check_operator(who, request, token)
        except Problem:
            return HTMLResponse(login_page(csrf_of(request), wrong=True), 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure_cookie)
        return answer

    @router.post("/logout")
    def sign_out(_: Form) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    return router


def login_page(csrf: str, wrong: bool) -> bytes:
    return shell.shell(
        "Sign in",
        tag("h2", "Sign in"),
        form(
            "/login",
            csrf,
            tag(
                "fieldset",
                field(
                    "token",
                    "An operator's token",
                    type="password",
                    required=True,
                    autocomplete="current-password",
                ),
                tag("button", "Sign in", class_="does"),
            ),
        ),
        csrf=csrf,
        told="This token is not an operator's, or no longer." if wrong else "",
    )
