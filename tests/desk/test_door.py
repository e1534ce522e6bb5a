"""Who comes in."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from desk.door import COOKIE, Door, by
from gateway.auth.caller import ANYONE, Caller
from gateway.auth.who import Who, unauthenticated
from gateway.exchange import ByName

TOKEN = "hr_key1_secret"


class _Known:
    """Knows an operator and a device."""

    def is_asking(self, method: str, _target: bytes, headers: ByName, *_: object) -> Caller:
        asked = headers.get(b"authorization", b"").removeprefix(b"Bearer ").decode()
        if asked == TOKEN:
            return ANYONE._replace(role="operator")
        if asked == "device":
            return Caller("device", device="d")
        raise unauthenticated(method, "Bearer")


def _ask(who: Who | None, method: str, path: str, **options: Any) -> httpx.Response:
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    def route(request: Request) -> Response:
        return PlainTextResponse(by(request))

    app.add_middleware(Door, who=who)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as http:
            return await http.request(method, path, **options)

    return asyncio.run(ask())


def test_an_operator_comes_in_by_header_or_cookie_and_is_known_by_the_key() -> None:
    for headers in ({"authorization": f"Bearer {TOKEN}"}, {"cookie": f"{COOKIE}={TOKEN}"}):
        answer = _ask(_Known(), "GET", "/", headers=headers)
        assert (answer.status_code, answer.text) == (200, "key key1")


def test_whoever_is_none_is_led_to_the_sign_in_or_refused() -> None:
    assert _ask(_Known(), "GET", "/").headers["location"] == "/login"
    assert _ask(_Known(), "GET", "/api/letters").status_code == 401
    device = {"authorization": "Bearer device"}
    assert _ask(_Known(), "GET", "/api/letters", headers=device).status_code == 403
    odd = {"cookie": f'{COOKIE}="a\\012b"; ='}
    assert _ask(_Known(), "GET", "/api/letters", headers=odd).status_code == 401


def test_another_site_may_not_ask_in_somebodys_name() -> None:
    headers = {"cookie": f"{COOKIE}={TOKEN}"}
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:8081", 200),
    ):
        answer = _ask(_Known(), "POST", "/discard", headers={**headers, "origin": origin})
        assert answer.status_code == status, origin


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8081", 200),
        ("localhost", 200),
        ("[::1]:1", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_where_nobody_is_asked_only_this_machines_names_lead_here(host: str, status: int) -> None:
    assert _ask(None, "GET", "/", headers={"host": host}).status_code == status


def test_every_answer_forbids_scripts_frames_and_other_hosts() -> None:
    for answer in (
        _ask(None, "GET", "/"),
        _ask(_Known(), "GET", "/"),
        _ask(_Known(), "GET", "/api/x"),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; form-action 'self'")
        assert "script" not in policy
        assert answer.headers["cache-control"] == "no-store"
