"""The OpenSearch of the tests keeps what it has taken, and refuses what is older."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from local_stack.machine.paths import CHECKOUT
from tests.opensearch_server import VERSION, OpenSearch, runs_on


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    with OpenSearch(tmp_path_factory.mktemp("search")) as running:
        yield running


def _put(search: OpenSearch, version: int, document: dict[str, Any]) -> httpx.Response:
    asked = {"version": str(version), "version_type": "external_gte"}
    return httpx.put(f"{search.url}/devices/_doc/a", params=asked, json=document, timeout=60)


def _found(search: OpenSearch) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{search.url}/devices/_doc/a", timeout=60).json()
    return answer["_version"], answer["_source"]


@pytest.mark.stack
def test_a_document_is_taken_in_its_newest_version_and_outlives_a_kill(search: OpenSearch) -> None:
    about = httpx.get(search.url, timeout=60).json()
    assert about["version"]["number"] == VERSION
    assert _put(search, 2, {"value": 2}).status_code == 201
    assert _put(search, 2, {"value": 22}).status_code == 200
    assert _put(search, 1, {"value": 1}).status_code == 409
    assert _found(search) == (2, {"value": 22})
    search.kill()
    with pytest.raises(httpx.TransportError):
        httpx.get(search.url, timeout=5)
    search.start()
    assert _found(search) == (2, {"value": 22})
    assert _put(search, 1, {"value": 1}).status_code == 409
    assert _put(search, 3, {"value": 3}).status_code == 200


@pytest.mark.stack
def test_a_server_that_cannot_start_says_why_and_is_gone(search: OpenSearch) -> None:
    search.kill()
    settings = search.home / "config" / "opensearch.yml"
    right = settings.read_text()
    settings.write_text(f"{right}no.such.setting: 1\n")
    with pytest.raises(AssertionError, match=r"(?s)ended with 1:.*no\.such\.setting"):
        search.start()
    settings.write_text(right)
    search.start()


def test_its_version_is_that_of_the_sealed_jar() -> None:
    sealed = (CHECKOUT / "jars" / "sha256.txt").read_text()
    assert re.findall(r" opensearch/opensearch-([\d.]+)\.jar$", sealed, re.M) == [VERSION]


@pytest.mark.parametrize(
    ("java", "runs"), [("17.0.15", True), ("21.0.8", True), ("25.0.4.1", False), ("", False)]
)
def test_it_runs_on_a_java_that_has_a_security_manager(java: str, runs: bool) -> None:
    assert runs_on(java) == runs
