"""Who comes in."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import desk.__main__
from desk.app import create_app
from desk.web.access import COOKIE, AccessMiddleware, by
from desk.web.rights import needed
from gateway.auth.authenticate import Authenticator, unauthenticated
from gateway.auth.caller import ANYONE, Caller, May
from gateway.http.message import ByName
from shared.settings import GatewaySettings
from tests.gateway.support import serving

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


def _ask(
    who: Authenticator | None,
    method: str,
    path: str,
    peer: str = "127.0.0.1",
    is_open: bool = False,
    **options: Any,
) -> httpx.Response:
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    def route(request: Request) -> Response:
        return PlainTextResponse(by(request))

    app.add_middleware(AccessMiddleware, who=who, is_open=is_open)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(peer, 4711))
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
        ("http://[", 403),
        ("http://127.0.0.1:8081", 200),
    ):
        answer = _ask(_Known(), "POST", "/discard", headers={**headers, "origin": origin})
        assert answer.status_code == status, origin


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost", "desk.example"])
@pytest.mark.parametrize(
    ("peer", "status"),
    [("127.0.0.1", 200), ("127.8.0.1", 200), ("::1", 200), ("10.0.0.7", 403), ("fe80::1", 403)],
)
def test_where_nobody_is_asked_it_is_the_connection_that_counts_and_no_header(
    peer: str, status: int, host: str
) -> None:
    headers = {"host": host, "x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"}
    assert _ask(None, "GET", "/", peer=peer, headers=headers).status_code == status


def test_other_machines_come_in_where_somebody_has_said_so() -> None:
    assert _ask(None, "GET", "/", peer="10.0.0.7", is_open=True).status_code == 200
    assert _ask(_Known(), "GET", "/", peer="10.0.0.7", is_open=True).status_code == 303


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.example"])
def test_no_foreign_name_leads_to_a_desk_that_asks_nobody(host: str, tmp_path: Path) -> None:
    settings = GatewaySettings(state_dir=tmp_path)
    with serving(create_app(settings), settings) as served:
        asked = {
            name: httpx.get(f"{served.url}/livez", headers={"host": name}).status_code
            for name in (host, "localhost")
        }
    assert asked == {host: 403, "localhost": 200}


def test_a_desk_that_asks_nobody_does_not_listen_for_other_machines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(desk.__main__, "listen", lambda *_: pytest.fail("it listens"))
    monkeypatch.setenv("HEADRACE_DESK_HOST", "0.0.0.0")
    assert desk.__main__.main() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("HEADRACE_DESK_HOST")
    assert "HEADRACE_OPEN" in line


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


ADMINISTERED = {
    ("POST", "/credentials"),
    ("POST", "/credentials/{key_id}/revoke"),
    ("POST", "/api/credentials"),
    ("DELETE", "/api/credentials/{key_id}"),
    ("PUT", "/api/hooks/{name}"),
    ("DELETE", "/api/hooks/{name}"),
    ("POST", "/api/hooks/{name}/rotate"),
    ("POST", "/login"),  # for everybody: it is asked before anybody is known
}
LOOKED = {
    ("POST", "/letters/{letter_id}/try"),
    ("POST", "/api/letters/{letter_id}/try"),
    ("POST", "/api/try/{endpoint}/{entity_id}"),
    ("POST", "/logout"),
}


def test_what_each_route_needs_is_written_down(tmp_path: Path) -> None:
    app = create_app(GatewaySettings(state_dir=tmp_path))
    seen = set()
    for path, methods in routes_of(app):
        for method in methods:
            wanted = needed(method, re.sub(r"{.*?}", "x", path))
            seen.add((method, path))
            if method in ("GET", "HEAD") or (method, path) in LOOKED:
                assert wanted == "look", path
            elif (method, path) in ADMINISTERED:
                assert wanted == "administer", path
            else:
                assert wanted == "operate", path
    assert seen >= ADMINISTERED | LOOKED
    assert ("POST", "/api/jobs/{job}/rebuild") in seen
    # what nobody has thought of yet
    assert needed("POST", "/api/new") == needed("PATCH", "/") == "administer"


def routes_of(app: FastAPI) -> Iterator[tuple[str, set[str]]]:
    """Pages as well, of which the document of its API says nothing."""
    known = get_openapi(title="all", version="1", routes=app.routes)
    for path, its in known["paths"].items():
        yield path, {method.upper() for method in its}


@pytest.mark.parametrize(
    ("may", "statuses"),
    [("look", [200, 403, 403]), ("operate", [200, 200, 403]), ("administer", [200, 200, 200])],
)
def test_an_operator_does_what_the_credential_says(may: May, statuses: list[int]) -> None:
    class Operator:
        def is_asking(self, *_: object) -> Caller:
            return Caller("operator", may=may)

    asked = (("GET", "/jobs"), ("POST", "/api/jobs/fold/pause"), ("POST", "/api/credentials"))
    headers = {"authorization": "Bearer x"}
    answers = [_ask(Operator(), *one, headers=headers) for one in asked]
    assert [one.status_code for one in answers] == statuses
