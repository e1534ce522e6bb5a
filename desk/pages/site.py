"""What belongs to no page: signing in, the style and the script, and that the desk lives."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from desk.sign_in.sessions import Sessions
from desk.web import shell
from desk.web.access import COOKIE, check_operator, cookie_of, csrf_of
from desk.web.components import field, form
from desk.web.form import FormFields, first, sign_in_form
from desk.web.form import form as form_of
from desk.web.html import tag
from gateway.auth.authenticate import Authenticator
from gateway.http.problems import Problem

_FILES = Path(shell.__file__).parent
_STYLE, _SCRIPT = ((_FILES / name).read_text() for name in ("style.css", "live.js"))
_WRONG = "This token is not an operator's, or no longer."
Form = Annotated[FormFields, Depends(form_of)]


def site(
    who: Authenticator | None, sessions: Sessions | None = None, *, secure_cookie: bool
) -> APIRouter:
    """`sessions`: of those who may sign in at a provider (provider.py)."""
    router = APIRouter()

    @router.get("/livez")
    async def livez() -> Response:  # no thread, of which all may be at work
        return PlainTextResponse("ok")

    @router.get("/style.css")
    def style() -> Response:
        return Response(_STYLE, media_type="text/css")

    @router.get("/live.js")
    def script() -> Response:
        return Response(_SCRIPT, media_type="text/javascript")

    @router.get("/login")
    def login(request: Request) -> Response:
        return HTMLResponse(login_page(csrf_of(request), by_provider=sessions is not None))

    @router.post("/login")
    def sign_in(request: Request, fields: Annotated[FormFields, Depends(sign_in_form)]) -> Response:
        token = first(fields, "token").strip()
        try:
            check_operator(who, request, token)
        except Problem:
            page = login_page(csrf_of(request), _WRONG, by_provider=sessions is not None)
            return HTMLResponse(page, 403)
        if sessions is not None:
            sessions.end(cookie_of(request))
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure_cookie)
        return answer

    @router.post("/logout")
    def sign_out(request: Request, _: Form) -> Response:
        if sessions is not None:
            sessions.end(cookie_of(request))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    return router


def login_page(csrf: str, told: str = "", *, by_provider: bool = False) -> bytes:
    way = tag("p", tag("a", "Sign in with your organization's account", href="/login/begin"))
    return shell.shell(
        "Sign in",
        tag("h2", "Sign in"),
        way if by_provider else None,
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
        told=told,
    )
