"""What cannot be kept as text, and other input that nobody should send: refused in a sentence, and
before anything is done. Nobody answers this desk, so whatever it asked would be a 503."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

from desk.app import create_app
from desk.letters.audit import Audit
from desk.letters.selection import Selection
from desk.letters.store import LetterBook
from desk.web.access import csrf_of
from shared.settings import GatewaySettings
from tests.gateway.support import serving

JSON = {"content-type": "application/json"}
NUL = r"\u0000 can be stored nowhere as text"
CSRF = csrf_of(Request({"type": "http", "headers": []}))


def settings(folder: Path) -> GatewaySettings:
    nobody = "127.0.0.1:1"
    return GatewaySettings(
        state_dir=folder, kafka_bootstrap=nobody, postgres_url=f"postgresql://{nobody}/headrace"
    )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(settings(tmp_path_factory.mktemp("desk")))


def asked(app: FastAPI, *requests: httpx.Request) -> list[httpx.Response]:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as http:
            return [await http.send(one) for one in requests]

    return asyncio.run(ask())


def request(method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Request:
    url = "http://127.0.0.1" + re.sub(r"{.*?}", "1", path.replace("{verb}", "stop"))
    return httpx.Request(method, url, content=body, headers=headers)


def documents(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Each route that takes one."""
    for path, its in app.openapi()["paths"].items():
        for method, operation in its.items():
            if [*operation.get("requestBody", {}).get("content", {})] == [JSON["content-type"]]:
                yield method, path


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (r'{"why": "a\u0000b"}', NUL),
        (r'{"a": {"b": ["\u0000"]}}', NUL),
        (r'{"\u0000": 1}', NUL),
        (r'{"why": "\ud800"}', "surrogates"),
        (r'{"\udfff": 1}', "surrogates"),
        (json.dumps({"why": 10**30}), "64-bit"),
        ('{"why": ' + "[" * 500 + "]" * 500 + "}", "ecursion"),
    ],
    ids=str,
)
def test_no_document_holds_what_cannot_be_kept(app: FastAPI, body: str, said: str) -> None:
    routes = [*documents(app)]
    assert ("post", "/api/jobs/{job}/pause") in routes
    assert ("put", "/api/hooks/{name}") in routes
    answers = asked(app, *(request(*route, body.encode(), JSON) for route in routes))
    for route, answer in zip(routes, answers, strict=True):
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), route
        assert said in answer.json()["detail"], route


@pytest.mark.parametrize("body", [b'{"why": "\xff"}', b'{"why": ' + b"9" * 5000 + b"}"])
def test_a_document_that_cannot_be_read_is_refused_in_words(app: FastAPI, body: bytes) -> None:
    for answer in asked(app, *(request(*route, body, JSON) for route in documents(app))):
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        assert answer.json()["detail"].startswith("the body cannot be read")


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/jobs/fold", "order=pause&why=a%00b", "NUL"),
        ("/discard", "reason=a%00&all=yes", "NUL"),
        ("/redrive", "all=yes&cause=a%00b", "NUL"),
        ("/waiting", "order=try&ids=a%00b", "NUL"),
        ("/webhooks/a/replay", "since=2026-11-21T12:00:00Z&entity=%00", "NUL"),
        ("/letters/a/redrive", "form=text&bytes=%00", "NUL"),
        ("/credentials", "role=device&device=a%00b", "NUL"),
        ("/credentials", "role=device&device=a&%00=b", "NUL"),
        ("/login", "token=%00", "NUL"),
        ("/jobs/fold", "order=pause&why=\xff", "the body is no form"),
        *(
            ("/credentials", f"role=device&device=a&days={days}", "a number from 1 to 36500")
            for days in ("9" * 5000, str(10**30), "36501", "0", "-1", "1.5", "%C2%B2", "x")
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_no_form_holds_it_either(app: FastAPI, path: str, fields: str, said: str) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = f"csrf={CSRF}&{fields}".encode("latin-1")
    (answer,) = asked(app, request("POST", path, body, headers))
    assert answer.status_code in (400, 422)
    assert said in answer.text


def test_no_url_holds_a_control_character(app: FastAPI, tmp_path: Path) -> None:
    """Of any route: the desk's connections are the gateway's."""
    with serving(app, settings(tmp_path)) as served:
        for hard in ("%00", "%0a", "%1F", "%7f"):
            for path in (f"/entities/a{hard}b", f"/api/letters/a{hard}b", f"/?cause=a{hard}b"):
                answer = httpx.get(f"{served.url}{path}")
                assert (answer.status_code, answer.json()["code"]) == (400, "bad_target"), path


def test_what_is_done_is_done_also_where_no_note_of_it_can_be_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def open_book() -> AbstractContextManager[LetterBook]:
        raise UnicodeError("it cannot be written")

    Audit(open_book).note("ann", "pause job", Selection(hook="h"), reason="why")
    (line,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
    assert line.getMessage() == (
        "not in the audit: ann: pause job: hook h: why; it cannot be written"
    )
