"""Signing in at an identity provider: the browser goes there, and comes back with a code."""

from hmac import digest
from secrets import token_bytes

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from desk.pages.site import login_page
from desk.sign_in.issuer import SignInError
from desk.sign_in.provider import Begun, Provider, same
from desk.sign_in.sessions import Sessions
from desk.web.access import COOKIE, csrf_of
from desk.web.html import tag
from desk.web.shell import shell

_BEGUN = "headrace-desk-sign-in"
_BEGUN_S = 600
_key = token_bytes(32)  # a sign-in that an earlier run began is begun anew


def provider_pages(provider: Provider, sessions: Sessions, *, secure_cookie: bool) -> APIRouter:
    router = APIRouter(prefix="/login")

    @router.get("/begin")
    def begin(request: Request) -> Response:
        begun = Begun.new()
        try:
            answer = RedirectResponse(provider.address(begun), 303)
        except SignInError as error:
            return _refused(request, error, 503)
        answer.set_cookie(
            _BEGUN,
            _sealed(begun),
            _BEGUN_S,
            path="/login",
            httponly=True,
            samesite="lax",  # the provider's page leads back here
            secure=secure_cookie,
        )
        return answer

    @router.get("/done")
    def done(request: Request) -> Response:
        begun = _unsealed(request.cookies.get(_BEGUN, ""))
        try:
            if begun is None:
                raise SignInError("this browser has begun no sign-in, or too long ago: begin again")
            identity = provider.redeem(begun, request.query_params)
        except SignInError as error:
            answer: Response = _refused(request, error, 403)
        else:
            answer = _signed_in(request)
            secret = sessions.begin(identity)
            answer.set_cookie(
                COOKIE, secret, httponly=True, samesite="strict", secure=secure_cookie
            )
        if begun is not None and begun.is_of(request.query_params):  # another one goes on
            answer.delete_cookie(_BEGUN, path="/login")
        return answer

    return router


def _sealed(begun: Begun) -> str:
    """What this desk has not made itself makes it ask nobody."""
    return f"{begun.text()}.{_seal(begun.text())}"


def _unsealed(cookie: str) -> Begun | None:
    text, _, seal = cookie.rpartition(".")
    return Begun.parse(text) if same(seal, _seal(text)) else None


def _seal(text: str) -> str:
    return digest(_key, text.encode(errors="replace"), "sha256").hex()


def _refused(request: Request, error: SignInError, status: int) -> Response:
    page = login_page(csrf_of(request), f"Nobody is signed in: {error}.", by_provider=True)
    return HTMLResponse(page, status)


def _signed_in(request: Request) -> Response:
    """A page of our own, and no redirect: as part of the way back from another site a browser
    would not send the new cookie."""
    page = shell(
        "Signed in",
        tag("h2", "Signed in"),
        tag("p", tag("a", "Go on", href="/")),
        csrf=csrf_of(request),
    )
    return HTMLResponse(page, headers={"refresh": "0; url=/"})
