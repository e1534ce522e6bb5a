"""Stands before all routes of the application. That of payloads is none of them: it asks by itself.
A route that is added later is an operator's until this file says otherwise."""

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.auth.authenticate import Authenticator, target_of
from gateway.auth.caller import operators_only
from gateway.auth.mtls import certified_in
from gateway.http.message import read_by_name
from gateway.http.problems import Problem
from gateway.state_view.peer_protocol import HELD_PATH, STATES_PATH

CALLER = "headrace.caller"
# for whoever starts and stops gateways; and for other gateways, which have a token of their own
_OPEN = "/livez", "/readyz", HELD_PATH, STATES_PATH
_SCOPED = "/state/", "/views", "/events/"  # show each caller its own


class Guard:
    def __init__(self, app: ASGIApp, who: Authenticator) -> None:
        self._app = app
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path not in _OPEN:
                try:
                    self._admit(path, scope)
                except Problem as problem:
                    await problem.response(scope)(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _admit(self, path: str, scope: Scope) -> None:
        caller = self._who.is_asking(
            scope["method"], target_of(scope), read_by_name(scope["headers"]), certified_in(scope)
        )
        if not path.startswith(_SCOPED) and not caller.may_operate:
            raise operators_only()
        scope[CALLER] = caller
