import tomllib
from pathlib import Path

import pytest

from gateway.server.openapi import path_of
from shared import VERSION
from shared.flow import FLOW
from tests.gateway.support import Gateway


@pytest.mark.parametrize("path", ["/", "/nix", "/v1", "/state", "/state/", "/state/a/b/c"])
def test_an_unknown_path_is_a_problem_too(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_method_elsewhere_is_a_problem_with_allow(gateway: Gateway) -> None:
    answer = gateway.ask("POST", "/livez")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["outcome"] == "definite"


def test_an_invalid_query_is_refused_without_repeating_it(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/state/device-0001?meta=perhaps")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "perhaps" not in answer.text


def test_the_openapi_document_describes_ingest(gateway: Gateway) -> None:
    document = gateway.ask("GET", "/openapi.json").json()
    for endpoint in FLOW.endpoints:
        post = document["paths"][path_of(endpoint)]["post"]
        assert {"202", "400", "413", "503"} <= post["responses"].keys()
        body = post["requestBody"]["content"]
        name = body["application/json"]["schema"]["$ref"].removeprefix("#/components/schemas/")
        assert "at" in document["components"]["schemas"][name]["properties"]
        assert {"text/plain", "application/octet-stream"} < body.keys()
        example = endpoint.example and endpoint.example.payload
        assert body["application/json"].get("example") == example
    assert {"/livez", "/readyz", "/health", "/state/{entity_id}"} <= document["paths"].keys()


def test_the_openapi_document_describes_event_streams(gateway: Gateway) -> None:
    document = gateway.ask("GET", "/openapi.json").json()
    described = document["paths"]["/v1/events"]["get"]
    (types,) = (one for one in described["parameters"] if one["name"] == "type")
    assert types["schema"]["items"]["enum"] == [row.name for row in FLOW.event_types]
    assert {"200", "400", "401", "403", "410", "429", "503"} == described["responses"].keys()


def test_the_documents_can_be_switched_off(gateway: Gateway) -> None:
    settings = gateway.settings.model_copy(update={"docs": False})
    bare = gateway.rebuilt(settings)
    assert bare.ask("GET", "/docs").status_code == 404
    assert bare.ask("GET", "/openapi.json").status_code == 404


def test_the_version_is_the_project_s() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
