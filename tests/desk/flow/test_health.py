"""What the desk understands of /health, and what it says where it gets none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from desk.flow.health import GatewayHealth, Trouble, read
from shared.settings import GatewaySettings
from tests.gateway.support import serving

TOLD = {
    "status": "fail",
    "checks": {
        "job:fold": [{"status": "pass", "output": ""}],
        "job:persist": [{"status": "warn", "output": "paused: by ann"}],
        "spool:depth": [
            {"status": "fail", "observedValue": 1234, "observedUnit": "records", "output": "full"}
        ],
    },
}


def test_what_does_not_pass_is_named_the_worst_first() -> None:
    found = read(TOLD)
    assert (found.status, found.checks) == ("fail", 3)
    assert found.troubles == (
        Trouble("spool:depth", "fail", "1,234 records: full"),
        Trouble("job:persist", "warn", "paused: by ann"),
    )


@pytest.mark.parametrize("told", [None, [], {}, {"status": "pass"}, {"checks": {"a": []}}, "well"])
def test_what_is_no_health_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match="no health"):
        read(told)


@contextmanager
def answers(response: Response, asked: list[str]) -> Iterator[GatewayHealth]:
    app = FastAPI()

    @app.get("/health")
    def health(request: Request) -> Response:
        asked.append(request.headers.get("authorization", ""))
        return response

    with serving(app, GatewaySettings()) as served:
        yield GatewayHealth(GatewaySettings(desk_health_url=f"{served.url}/health"))


def test_the_gateway_is_asked_as_the_operator_who_looks() -> None:
    asked: list[str] = []
    with answers(JSONResponse(TOLD, 503), asked) as health:
        assert health.ask("hr_secret").status == "fail"
        assert health.ask("").status == "fail"
    assert asked == ["Bearer hr_secret", ""]


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (JSONResponse({"code": "operators_only"}, 403), "answers 403, and no health"),
        (PlainTextResponse("<html>", 200), "answers 200, and no health"),
    ],
)
def test_another_answer_is_said(response: Response, says: str) -> None:
    with answers(response, []) as health:
        found = health.ask("")
    assert (found.status, found.troubles) == (None, ())
    assert says in found.unknown


def test_a_gateway_that_is_away_is_said() -> None:
    url = "http://127.0.0.1:1/health"
    found = GatewayHealth(GatewaySettings(desk_health_url=url)).ask("")
    assert found.status is None
    assert found.unknown.startswith(f"{url} does not answer: ")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:8080/health"),
        ({"gateway_port": 1080, "admin_port": 9090}, "http://127.0.0.1:9090/health"),
        ({"gateway_host": "0.0.0.0", "open": "yes-anyone-may-write"}, "http://127.0.0.1:8080/health"),
        ({"gateway_host": "::1"}, "http://[::1]:8080/health"),
        ({"desk_health_url": "https://gateway/health"}, "https://gateway/health"),
    ],
)  # fmt: skip
def test_the_gateway_beside_is_found_by_its_settings(given: dict[str, Any], url: str) -> None:
    assert GatewaySettings(**given).health_url == url


@pytest.mark.parametrize("url", ["gateway:8080", "file:///etc/passwd", "http://", "http://a/ b"])
def test_a_setting_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="write a URL such as"):
        GatewaySettings(desk_health_url=url)
