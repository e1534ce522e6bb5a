"""The one form that is read before anybody knows who sends it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from desk.pages.site import site
from desk.web.access import COOKIE, AccessMiddleware
from gateway.http.problems import HANDLERS
from tests.desk import dom
from tests.desk.web.test_access import TOKEN, _Known

_CHUNK = b"x" * 16_384


class Upload:
    """Chunk by chunk, as many as are wanted."""

    def __init__(self) -> None:
        self.asked_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(2048):  # 32 MiB
            self.asked_bytes += len(_CHUNK)
            yield _CHUNK


def _ask(method: str, **options: Any) -> httpx.Response:
    app = FastAPI(exception_handlers=HANDLERS)
    app.include_router(site(_Known(), secure_cookie=False))
    app.add_middleware(AccessMiddleware, who=_Known())

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as http:
            return await http.request(method, "/login", **options)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("headers", "most_bytes"), [({"content-length": "33554432"}, 0), ({}, 2 * len(_CHUNK))]
)
def test_what_is_no_sign_in_is_refused_before_it_is_read(
    headers: dict[str, str], most_bytes: int
) -> None:
    upload = Upload()
    answer = _ask("POST", content=upload, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert upload.asked_bytes <= most_bytes


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 303), ("x" * 8192, 403)])
def test_a_token_of_any_length_that_there_is_gets_its_answer(token: str, status: int) -> None:
    (form,) = dom.read(_ask("GET").text).all("form")
    answer = _ask("POST", data={**form.fields(), "token": token})
    assert (answer.status_code, COOKIE in answer.cookies) == (status, status == 303)
