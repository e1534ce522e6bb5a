"""What the desk understands of /health, and what it says where it gets none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from desk.flow.health import GatewayHealth, Trouble, read
from shared.settings import GatewaySettings
from tests.certificates import Authority
from tests.gateway.support import free_port, serving

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


def test_what_follows_is_told_apart_and_what_was_refused() -> None:
    follows = {"status": "warn", "output": "old", "followsFrom": "job:relay"}
    follows["since"] = "2026-11-29T12:00:00.000Z"
    refused = {"status": "pass", "observedValue": 7, "observedUnit": "payloads", "output": "7 bad"}
    checks = {"ledger:difference": follows, "gateway:refused": refused}
    found = read({"status": "warn", "checks": {name: [one] for name, one in checks.items()}})
    assert found.troubles == (
        Trouble("ledger:difference", "warn", "old", "job:relay", follows["since"]),
    )
    assert found.refused == "7 payloads: 7 bad"


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
    assert found.unknown.startswith(f"the gateway, {url}, does not answer: ")


def test_an_address_that_nobody_can_ask_is_said() -> None:
    found = GatewayHealth(GatewaySettings(desk_health_url="http://a..b/health")).ask("t")
    assert found.status is None
    assert "does not answer" in found.unknown


def test_a_token_goes_nowhere_that_others_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def get(_: str, *, headers: dict[str, str], **__: object) -> httpx.Response:
        sent.append(headers.get("authorization", ""))
        return httpx.Response(200, json=TOLD)

    monkeypatch.setattr(httpx, "get", get)
    for url in ("http://gateway:8080/health", "https://gateway/health", "http://[::1]:1/health"):
        GatewayHealth(GatewaySettings(desk_health_url=url)).ask("own")
    url = "http://gateway:8080/health"
    given = GatewaySettings(desk_health_url=url, desk_health_token=SecretStr("given"))
    GatewayHealth(given).ask("own")
    assert sent == ["", "Bearer own", "Bearer own", "Bearer given"]


def test_a_gateway_beside_is_known_by_its_own_certificate(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("CN=gateway", san="gateway.example")
    app, port = FastAPI(), free_port()
    app.get("/health")(lambda: JSONResponse(TOLD))
    tls: dict[str, Any] = {"tls_cert_file": issued.cert_file, "tls_key_file": issued.key_file}
    settings = GatewaySettings(gateway_port=port, **tls)
    with serving(app, settings, port=port):
        assert GatewayHealth(settings).ask("").status == "fail"
        other = GatewaySettings(gateway_port=port, desk_health_url=settings.health_url)
        assert "certificate" in GatewayHealth(other).ask("").unknown.lower()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:8080/health"),
        ({"gateway_port": 1080, "admin_port": 9090}, "http://127.0.0.1:9090/health"),
        ({"gateway_host": "0.0.0.0", "open": "yes-anyone-may-write"}, "http://127.0.0.1:8080/health"),
        ({"gateway_host": "::1"}, "http://[::1]:8080/health"),
        ({"gateway_host": "::", "open": "yes-anyone-may-write"}, "http://[::1]:8080/health"),
        ({"desk_health_url": "https://gateway/health"}, "https://gateway/health"),
    ],
)  # fmt: skip
def test_the_gateway_beside_is_found_by_its_settings(given: dict[str, Any], url: str) -> None:
    assert GatewaySettings(**given).health_url == url


@pytest.mark.parametrize(
    "url",
    [
        "gateway:8080",
        "file:///etc/passwd",
        "http://",
        "http://a/ b",
        "http://[::1/x",
        "http://a:b/",
    ],
)
def test_a_setting_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="write a URL such as"):
        GatewaySettings(desk_health_url=url)
