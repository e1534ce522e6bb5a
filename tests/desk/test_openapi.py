"""The document of the desk's API."""

import asyncio
from typing import Any

import httpx
import pytest

from desk.app import create_app
from shared.settings import GatewaySettings

METHODS = {"get", "put", "post", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(GatewaySettings()))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get("/api/openapi.json")

    answer = asyncio.run(ask())
    assert answer.status_code == 200
    return dict(answer.json())


def test_each_request_says_what_it_does_and_who_may(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        assert path.startswith("/api/")
        assert operations.keys() <= METHODS
        for operation in operations.values():
            assert operation["summary"], path
            assert "For who may " in operation["description"]
            assert operation["responses"].keys() == {"2XX", "default"}


@pytest.mark.parametrize(
    ("method", "path", "may"),
    [
        ("get", "/api/letters", "look"),
        ("post", "/api/letters/{letter_id}/try", "look"),
        ("post", "/api/jobs/{job}/pause", "operate"),
        ("put", "/api/master/{table}/{key}", "operate"),
        ("put", "/api/hooks/{name}", "administer"),
        ("post", "/api/credentials", "administer"),
    ],
)
def test_rights_are_said(document: dict[str, Any], method: str, path: str, may: str) -> None:
    assert document["paths"][path][method]["description"].endswith(f"For who may {may}.")


def test_what_is_referred_to_is_there_and_nothing_else(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = str(document["paths"])
    for name in schemas:
        assert f"/{name}'" in text, name
    assert text.count("#/components/schemas/") == sum(
        text.count(f"#/components/schemas/{name}'") for name in schemas
    )


def test_filters_and_bodies_of_bytes_are_in_it(document: dict[str, Any]) -> None:
    names = {one["name"] for one in document["paths"]["/api/letters"]["get"]["parameters"]}
    assert {"limit", "after", "cause", "entity_id", "since"} <= names
    assert "requestBody" in document["paths"]["/api/try/{endpoint}/{entity_id}"]["post"]
    redrive = document["paths"]["/api/redrives"]["post"]["requestBody"]["content"]
    assert redrive["application/json"]["schema"]["$ref"].endswith("/ToRedrive")
