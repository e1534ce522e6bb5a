"""What a browser is told that asks for a page of another origin, over the wire."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.event_streams import hub
from shared.settings import GatewaySettings
from tests.gateway.auth.support import device, table
from tests.gateway.event_streams.played import PlayedLog
from tests.gateway.support import Gateway, built, serving

PAGE = "https://app.example"
DEVICE = device("device-0001")
ALLOWED = "access-control-allow-origin"
READABLE = ["/v1/events", "/v1/events?type=reading", "/state/device/device-0001"]
ASKS = {
    "access-control-request-method": "GET",
    "access-control-request-headers": "authorization,last-event-id",
}


@pytest.fixture
def open_to_pages(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"cors_origins": f"http://localhost:3000,{PAGE}"})


@pytest.fixture
def nobody_is_asked(open_to_pages: GatewaySettings) -> Gateway:
    return built(open_to_pages)


@pytest.fixture
def everybody_is_asked(open_to_pages: GatewaySettings) -> Gateway:
    settings = open_to_pages.model_copy(update={"auth": "token"})
    return built(settings, who=CredentialAuthenticator(table(DEVICE)))


def ask(gateway: Gateway, method: str, path: str, origin: str, **headers: str) -> httpx.Response:
    return gateway.ask(method, path, headers={"origin": origin, **headers})


@pytest.fixture
def stream_head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Gateway, str], str]]:
    monkeypatch.setattr(hub, "LiveReader", PlayedLog)
    with ExitStack() as open_:

        def head(gateway: Gateway, origin: str) -> str:
            served = open_.enter_context(serving(gateway, gateway.settings))
            connection: socket.socket = open_.enter_context(served.connect())
            lines = f"GET /v1/events HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n"
            connection.sendall(lines.encode())
            return connection.recv(65536).partition(b"\r\n\r\n")[0].decode()

        yield head


def test_its_answers_say_who_may_read_them(nobody_is_asked: Gateway) -> None:
    state = ask(nobody_is_asked, "GET", "/state/device/device-0001", PAGE)
    refused = ask(nobody_is_asked, "GET", "/v1/events?type=none", PAGE)
    assert (state.status_code, refused.status_code) == (503, 400)  # there is no view yet
    for answer in (state, refused):
        assert answer.headers.get_list(ALLOWED) == [PAGE]
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers
    own = nobody_is_asked.ask("GET", "/state/device/device-0001")
    assert ALLOWED not in own.headers


def test_a_stream_says_it_too(
    nobody_is_asked: Gateway, stream_head: Callable[[Gateway, str], str]
) -> None:
    head = stream_head(nobody_is_asked, PAGE)
    assert head.startswith("HTTP/1.1 200 OK")
    assert f"\r\n{ALLOWED}: {PAGE}\r\nvary: Origin\r\n" in head


def test_other_pages_and_other_routes_are_refused(nobody_is_asked: Gateway) -> None:
    elsewhere = [("GET", path, "https://evil.example") for path in READABLE]
    elsewhere += [("OPTIONS", path, "null") for path in READABLE]
    elsewhere += [("GET", path, PAGE) for path in ("/health", "/metrics", "/docs")]
    elsewhere += [(method, "/v1/telemetry/device-0001", PAGE) for method in ("POST", "OPTIONS")]
    for method, path, origin in elsewhere:
        answer = ask(nobody_is_asked, method, path, origin)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin"), path
        assert ALLOWED not in answer.headers
    assert nobody_is_asked.log.records == []


@pytest.mark.parametrize("path", READABLE)
def test_the_first_question_needs_no_credential(everybody_is_asked: Gateway, path: str) -> None:
    answer = ask(everybody_is_asked, "OPTIONS", path, PAGE, **ASKS)
    assert (answer.status_code, answer.headers[ALLOWED]) == (200, PAGE)
    assert answer.headers["access-control-allow-methods"] == "GET"
    allowed = answer.headers["access-control-allow-headers"].lower()
    assert {"authorization", "last-event-id"} <= {*allowed.split(", ")}
    foreign = ask(everybody_is_asked, "OPTIONS", path, "https://evil.example", **ASKS)
    assert foreign.status_code == 400
    assert ALLOWED not in foreign.headers
    unknown = ask(everybody_is_asked, "GET", path, PAGE)
    assert (unknown.status_code, unknown.headers[ALLOWED]) == (401, PAGE)


def test_with_a_credential_the_page_may_post_and_not_read_the_answer(
    everybody_is_asked: Gateway,
) -> None:
    """As before: whoever has the credential may send from wherever it is."""
    path = "/v1/telemetry/device-0001"
    headers = {"origin": PAGE, **DEVICE.headers}
    answer = everybody_is_asked.post(path, headers=headers)
    assert answer.status_code == 202
    assert ALLOWED not in answer.headers
    assert ALLOWED not in ask(everybody_is_asked, "OPTIONS", path, PAGE, **ASKS).headers


def test_without_the_setting_nothing_has_changed(settings: GatewaySettings) -> None:
    closed = built(settings.model_copy(update={"auth": "token"}))
    for path in READABLE:
        first = ask(closed, "OPTIONS", path, PAGE, **ASKS)
        assert first.status_code in (404, 405)
        assert ALLOWED not in first.headers
    assert ALLOWED not in ask(closed, "GET", READABLE[-1], PAGE).headers
