"""A gateway that asks nobody who they are, and what a browser can be made to send to it."""

import pytest

from gateway.http.page_origins import PageOrigins
from gateway.http.problems import Problem
from gateway.server.browser_origin import BrowserOrigin, browser_origin
from shared.settings import GatewaySettings
from tests.gateway.support import Served

PAGE = "https://app.example"
KNOWN = BrowserOrigin(frozenset({"gateway.example"}), PageOrigins([PAGE]))
POST = "POST /v1/telemetry/device-0001 HTTP/1.1\r\nContent-Length: 2\r\n"


def _judged(
    host: str | None, origin: str | None = None, method: str = "GET", target: str = "/v1/events"
) -> str | None:
    try:
        KNOWN.judge(
            None if host is None else host.encode(),
            None if origin is None else origin.encode(),
            method.encode(),
            target.encode(),
        )
    except Problem as problem:
        assert (problem.status, problem.outcome) == (403, "definite")
        assert "HEADRACE_" in problem.detail
        return problem.code
    return None


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8080", "10.0.0.7", "[::1]:8080", "[fe80::1]"),
        *("localhost", "LocalHost:8080", "gateway.example:443", "Gateway.Example", None),
    ],
)
def test_an_address_and_a_known_name_are_answered(host: str | None) -> None:
    assert _judged(host) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "gateway"),
        *("evil.example:8080", "gateway.example.evil.example", "localhost."),
    ],
)
def test_a_name_that_somebody_else_may_have_pointed_here_is_refused(host: str) -> None:
    assert _judged(host) == "foreign_host"


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:3000", "", "x"),
        *("http://127.0.0.1:8080.evil.example", "http://localhost:8080", "http://app.example"),
    ],
)
def test_another_site_s_page_is_refused(origin: str) -> None:
    assert _judged("127.0.0.1:8080", origin) == "foreign_origin"


def test_a_page_of_its_own_is_answered() -> None:
    assert _judged("127.0.0.1:8080", "http://127.0.0.1:8080") is None
    assert _judged("gateway.example", "https://Gateway.example") is None


@pytest.mark.parametrize(
    ("method", "target", "said"),
    [
        ("GET", "/v1/events", None),
        ("GET", "/v1/events?type=reading", None),
        ("OPTIONS", "/state/device/device-0001", None),
        ("POST", "/v1/events", "foreign_origin"),
        ("DELETE", "/state/device/device-0001", "foreign_origin"),
        ("GET", "/v1/eventsx", "foreign_origin"),
        ("GET", "/v1/telemetry/device-0001", "foreign_origin"),
        ("OPTIONS", "/v1/telemetry/device-0001", "foreign_origin"),
        ("GET", "/health", "foreign_origin"),
        ("GET", "http://other/v1/events", "foreign_origin"),
    ],
)
def test_a_page_that_was_allowed_reads_and_no_more(
    method: str, target: str, said: str | None
) -> None:
    assert _judged("127.0.0.1:8080", PAGE, method, target) == said
    assert _judged("evil.example", PAGE, method, target) == "foreign_host"


def test_where_everybody_is_asked_no_name_is_looked_at() -> None:
    assert browser_origin(GatewaySettings(auth="token")) is None
    assert browser_origin(GatewaySettings()) is not None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: evil.example\r\n", b"403"),
        ("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n", b"403"),
        ("Host: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n", b"202"),
        ("Host: 127.0.0.1\r\n", b"202"),
    ],
)
def test_the_second_request_is_judged_as_the_first(
    served: Served, headers: str, status: bytes
) -> None:
    for _ in range(2):  # the second is read by its known head
        with served.connect() as connection:
            connection.sendall(f"{POST}{headers}\r\n{{}}".encode())
            assert connection.recv(4096).split()[1] == status
