"""Every refusal, as RFC 9457 problem details. No exception text ever reaches a client."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Literal

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from shared.mistakes import words_of

MEDIA_TYPE = "application/problem+json"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "outcome": {"enum": ["definite", "unknown"]},
    },
}
UNKNOWN_OUTCOME = "outcome_unknown"
INTERNAL_FAULT = "internal_fault"

# definite: nothing was written. unknown: it may have been, send it again.
Outcome = Literal["definite", "unknown"]


class Problem(Exception):  # noqa: N818 - it is an answer
    """An answer that says what is wrong and what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        outcome: Outcome | None = None,
        headers: Mapping[str, str] | None = None,
        ends_connection: bool = False,
        payloads: int = 1,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.outcome = outcome
        self.headers = dict(headers or {})
        self.ends_connection = ends_connection
        self.payloads = payloads  # that it refuses and nobody has counted yet

    def body(self, instance: str) -> bytes:
        fields: dict[str, Any] = {
            "type": f"urn:headrace:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
        }
        if self.outcome is not None:
            fields["outcome"] = self.outcome
        return orjson.dumps(fields)

    def response(self, scope: Scope) -> Response:
        # the path as it was sent: percent-encoded, so nothing in it can break a log line
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        body = self.body(raw.decode("ascii", errors="replace"))
        return Response(body, self.status, self.headers, MEDIA_TYPE)


def refused(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
) -> Problem:
    """Nothing was written."""
    return Problem(status, code, detail, outcome="definite", headers=headers, **more)


last_refusal = partial(refused, ends_connection=True)


def retry_after(seconds: int) -> dict[str, str]:
    return {"retry-after": str(seconds)}


def _refused_post(request: Request) -> Outcome | None:
    return "definite" if request.method == "POST" else None


async def on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = {
        400: "the body cannot be read: JSON is in UTF-8, and its numbers have 4,300 digits at most",
        404: "there is nothing at this path; GET /openapi.json lists the routes",
        405: "this path exists, but not for this method; the Allow header names those it has",
    }.get(status, status.description or status.phrase)
    return Problem(
        status,
        status.phrase.lower().replace(" ", "_"),
        detail,
        outcome=_refused_post(request),
        headers=error.headers,
    ).response(request.scope)


async def on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # where and why, never the value that was sent
    wrong = "; ".join(
        f"{'.'.join(str(part) for part in e['loc'])}: {words_of(e)}" for e in error.errors()
    )
    return Problem(422, "invalid_request", wrong, outcome=_refused_post(request)).response(
        request.scope
    )


async def on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response(request.scope)


async def on_fault(request: Request, error: Exception) -> Response:  # noqa: ARG001 - not for clients
    return internal_fault(request.method).response(request.scope)


def internal_fault(method: str) -> Problem:
    return Problem(
        500,
        INTERNAL_FAULT,
        "a fault of the gateway; the operator finds it in the gateway's log",
        outcome="unknown" if method == "POST" else None,
    )


Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]
HANDLERS: dict[int | type[Exception], Handler] = {
    HTTPException: on_http_exception,
    RequestValidationError: on_invalid_request,
    Problem: on_problem,
    Exception: on_fault,
}
