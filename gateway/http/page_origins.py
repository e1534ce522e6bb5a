"""What pages of other origins may do: those of HEADRACE_CORS_ORIGINS read states, views and events.

A browser shows a page the answer of another origin only if the answer says so, and asks first, by
OPTIONS, where the page adds headers of its own. Cookies mean nothing here, so none are asked for.
"""

from collections.abc import Collection

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.message import Request

_EVENTS, _READ = b"/v1/events", (b"/state/", b"/views")
_READS = (b"GET", b"OPTIONS")
_OWN_HEADERS = ("Authorization", "Last-Event-ID")


class PageOrigins:
    def __init__(self, origins: Collection[str]) -> None:
        self._lines = {
            origin: b"access-control-allow-origin: %b\r\nvary: Origin\r\n" % origin
            for origin in (one.encode() for one in origins)
        }

    def may_read(self, origin: bytes, method: bytes, target: bytes) -> bool:
        return origin in self._lines and method in _READS and _is_readable(target)

    def is_first_question(self, request: Request) -> bool:
        """Before a page reads: the application answers it."""
        return request.method == "OPTIONS" and bool(self._lines) and _is_readable(request.target)

    def lines(self, request: Request) -> bytes:
        """Headers of the answer to a request for what may be read."""
        return self._lines.get(request.by_name.get(b"origin", b""), b"")


class ForPages:
    """Stands before all routes of the application, also before who asks for a credential: a browser
    sends none with its first question."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._readable = CORSMiddleware(
            app,
            allow_origins=sorted(origins),
            allow_methods=("GET",),
            allow_headers=_OWN_HEADERS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_readable = scope["type"] == "http" and _is_readable(scope["raw_path"])
        await (self._readable if is_readable else self._app)(scope, receive, send)


def _is_readable(target: bytes) -> bool:
    return target.partition(b"?")[0] == _EVENTS or target.startswith(_READ)
