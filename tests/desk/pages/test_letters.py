"""The pages of letters, over a desk that knows one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from desk.letters.render import bytes_shown
from desk.letters.service import Desk
from desk.pages.letters import letter_pages
from tests.desk import dom


class _Desk:
    """With a letter of these bytes."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self.book = self

    def mark(self) -> str:
        return "1:1:"

    def show(self, letter_id: str) -> dict[str, Any]:
        nothing = dict.fromkeys(
            ("detail", "endpoint", "entity_id", "stage", "status", "first_parked", "parked_at")
        )
        return {
            **nothing,
            "id": letter_id,
            "cause": "not_json",
            "times": 1,
            "key": None,
            "headers": [],
            "attempts": [],
            "payload_bytes": bytes_shown(self._value),
        }


@pytest.mark.parametrize(
    ("value", "written", "edited"),
    [
        (b'{"value": 21,5}', "text", '{"value": 21,5}'),
        (b"\xff", "base64", "/w=="),
        (b"a\0b", "base64", "YQBi"),  # a browser would send another character in the place of NUL
    ],
)
def test_unchanged_a_letter_s_bytes_come_back_from_its_form(
    value: bytes, written: str, edited: str
) -> None:
    @contextmanager
    def open_desk() -> Iterator[Desk]:
        yield cast(Desk, _Desk(value))

    app = FastAPI()
    app.include_router(letter_pages(open_desk))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            return await http.get("http://127.0.0.1/letters/one")

    page = dom.read(asyncio.run(ask()).text)
    (form,) = (one for one in page.all("form") if one.attributes["action"].endswith("/try#trial"))
    fields = form.fields()
    assert (fields["form"], fields["bytes"].strip()) == (written, edited)
