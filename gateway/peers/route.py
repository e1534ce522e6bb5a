"""What gateways ask each other: they know each other by a token. Nobody else may ask."""

import hmac
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.problems import Problem
from gateway.state_view.parts import is_divided
from gateway.state_view.peer_protocol import HELD_PATH, KEYS_MAX, STATES_PATH, bearer, held, told
from gateway.state_view.reader import StateView
from gateway.streams.loop_share import LoopShare
from shared.settings import GatewaySettings
from shared.timestamps import now_ms

_BODY_BYTES_MAX = 256 * 1024
_ANSWER_BYTES_MAX = 2 * 1024 * 1024


def peer_routes(settings: GatewaySettings, view: StateView) -> list[BaseRoute]:
    expected = bearer(settings)["authorization"].encode()

    def check(request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, expected):
            raise Problem(401, "no_peer", "only other gateways may ask this, with their token")

    async def parts(request: Request) -> Response:
        check(request)
        return _answer({"parts": held(view.progress(), now_ms())})

    async def states(request: Request) -> Response:
        """Tells states. Of large ones it tells fewer than were asked for: the rest is to be asked
        for again."""
        check(request)
        share, found, left_bytes = LoopShare(), list[Any](), _ANSWER_BYTES_MAX
        for part, key in await _read(request):
            # nothing else of the view is told, credentials least of all
            its = view.find(part if is_divided(part) else "", key)
            found.append(told(*its, now_ms()))
            left_bytes -= len(its[1].value) if its[1] else 0
            if left_bytes <= 0:
                break
            if share.is_used_up():
                await share.give_back()
        return _answer({"states": found})

    return [Route(HELD_PATH, parts, methods=["GET"]), Route(STATES_PATH, states, methods=["POST"])]


async def _read(request: Request) -> list[tuple[str, bytes]]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            raise _bad()
    try:
        asked = [(str(part), str(key).encode()) for part, key in orjson.loads(body)["keys"]]
    except (ValueError, KeyError, TypeError):
        raise _bad() from None
    if len(asked) > KEYS_MAX:
        raise _bad()
    return asked


def _bad() -> Problem:
    return Problem(400, "bad_question", f"ask with keys: up to {KEYS_MAX} pairs of part and key")


def _answer(told: dict[str, Any]) -> Response:
    return Response(
        orjson.dumps(told),
        headers={"cache-control": "no-store"},
        media_type="application/json",
    )
