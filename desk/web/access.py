"""Who comes in, and from where. Stands before all of the desk's routes.

An operator's token opens it: a program sends it as `Authorization: Bearer`, a browser keeps it in a
cookie that no script reads and no other site sends. Who has signed in at a provider has a session
in the place of the token. What an operator may is decided here, for all routes. Where nobody is
asked, only connections from this machine lead here, whatever their requests call it; that no
foreign page makes a browser of this machine ask is the connection's matter
(gateway/server/browser_origin.py).
"""

import re
from collections.abc import Callable
from hmac import compare_digest, digest
from http.cookies import CookieError, SimpleCookie
from secrets import token_bytes
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from desk.sign_in.sessions import PREFIX as SESSION
from desk.sign_in.sessions import Sessions
from desk.web.rights import SAFE, needed
from gateway.auth.authenticate import Authenticator, target_of, unauthenticated
from gateway.auth.caller import Caller, may_not, operators_only
from gateway.auth.token import PREFIX, key_id_of
from gateway.http.message import read_by_name
from gateway.http.problems import Problem
from shared.settings import is_loopback

COOKIE = "headrace-desk"
_BY, _MAY, _TENANT = "headrace.by", "headrace.may", "headrace.tenant"
_SESSION = "headrace.session"
# where a tenant's operators come in, too, each to what is their tenant's
_OF_TENANTS = re.compile("/api/hooks(/|$)")
_OPEN = ("/livez", "/login", "/login/begin", "/login/done", "/style.css", "/live.js")
_ALLOWED = (
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# of the pages that show nothing a device has sent: these may keep themselves up to date
_LIVE = {"/flow": f"{_ALLOWED}; script-src 'self'; connect-src 'self'"}
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_secret = token_bytes(32)  # a form of an earlier run of this process is opened anew


def plain_refusal(request: Request, problem: Problem) -> Response:
    return problem.response(request.scope)


class AccessMiddleware:
    """`who`: None where nobody is asked; `is_open`: then other machines may come in, too.
    `refusal`: as the page or the document that was asked for."""

    def __init__(
        self,
        app: ASGIApp,
        who: Authenticator | None,
        is_open: bool = False,
        sessions: Sessions | None = None,
        refusal: Callable[[Request, Problem], Response] = plain_refusal,
    ) -> None:
        self._app = app
        self._who = who
        self._sessions = sessions
        self._refusal = refusal
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                allowed = _LIVE.get(scope["path"], _ALLOWED)
                headers = {**_HEADERS, "content-security-policy": allowed}
                MutableHeaders(raw=message["headers"]).update(headers)
            await send(message)

        request = Request(scope)
        try:
            _refuse_other_sites(request)
            self._admit(request)
        except Problem as problem:
            answer = self._refusal(request, problem)
            if problem.status == 401 and is_page(request):
                answer = RedirectResponse("/login", 303)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _admit(self, request: Request) -> None:
        if self._who is None:
            if not self._is_open and not (request.client and is_loopback(request.client.host)):
                raise Problem(
                    403, "foreign_address", "the desk asks nobody who they are, so it answers this "
                    "machine alone: set HEADRACE_AUTH, or HEADRACE_OPEN=yes-anyone-may-write"
                )  # fmt: skip
            request.scope[_BY] = "anyone"
        elif request.url.path not in _OPEN:
            caller, name = self._caller(self._who, request)
            is_here = caller.role == "operator" and _OF_TENANTS.match(request.scope["path"])
            if not (caller.may_operate or is_here):
                raise operators_only()
            wanted = needed(request.method, request.scope["path"])
            request.scope[_BY], request.scope[_MAY] = name, caller.may
            request.scope[_TENANT] = caller.tenant
            if not caller.has(wanted):
                raise may_not(caller, wanted)

    def _caller(self, who: Authenticator, request: Request) -> tuple[Caller, str]:
        token = token_of(request)
        is_session = token.startswith(SESSION) and token == cookie_of(request)
        session = self._sessions.find(token) if is_session and self._sessions else None
        if session is not None:
            request.scope[_SESSION] = True
            return Caller("operator", may=session.may), session.name
        if is_session or not token:  # nobody, also while it is not known who may come in
            raise unauthenticated(request.method, "Bearer")
        return _caller(who, request, token), _name_of(token)


def check_operator(who: Authenticator | None, request: Request, token: str) -> None:
    """Problem where this token is none of an operator of the installation."""
    if not _caller(who, request, token).may_operate:
        raise operators_only()


def _caller(who: Authenticator | None, request: Request, token: str) -> Caller:
    if who is None or not token.isascii() or "\n" in token:
        raise unauthenticated(request.method, "Bearer")
    headers = {**read_by_name(request.scope["headers"])}
    headers[b"authorization"] = b"Bearer " + token.encode()
    return who.is_asking(request.method, target_of(request.scope), headers)


def _name_of(token: str) -> str:
    """For the audit."""
    return f"key {key_id_of(token)}" if token.startswith(PREFIX.decode()) else "a token's owner"


def token_of(request: Request) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given
    return cookie_of(request)


def cookie_of(request: Request) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def gateway_token_of(request: Request) -> str:
    """What the gateway knows the caller by, too: no session."""
    return "" if request.scope.get(_SESSION) else token_of(request)


def by(request: Request) -> str:
    return str(request.scope[_BY])


def may_of(request: Request) -> str:
    """Empty where nobody is asked."""
    return str(request.scope.get(_MAY, ""))


def tenant_of(request: Request) -> str:
    """The tenant of which the caller may see what is here; "": all tenants."""
    return str(request.scope.get(_TENANT, ""))


def is_page(request: Request) -> bool:
    return not re.match("/(api/|metrics$)", request.url.path)


def csrf_of(request: Request) -> str:
    """Only a page of ours, shown to whoever sends this cookie, holds it."""
    return digest(_secret, token_of(request).encode(), "sha256").hex()


def check_csrf(request: Request, given: str) -> None:
    if not compare_digest(csrf_of(request).encode(), given.encode()):
        raise Problem(403, "form_too_old", "this form is of another time: open its page anew")


def _refuse_other_sites(request: Request) -> None:
    origin = request.headers.get("origin")
    if request.method in SAFE or origin is None:
        return
    try:
        its = urlsplit(origin).netloc
    except ValueError:
        its = ""
    if its != request.headers.get("host"):
        raise Problem(403, "foreign_origin", "another site's page may not ask in your name")
