"""Avro on a whole stack whose schema registry is away at first: what names a schema waits in its
order, what names none goes on, and nothing is parked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from local_stack.run.stack import Stack
from tests.kafka_log import eventually, read_topic
from tests.killed import wait_for_states
from tests.played_registry import PlayedRegistry, framed, played_registry
from tests.played_service import answering
from tests.stream_jobs.registry_flow import METER

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def registry() -> Iterator[PlayedRegistry]:
    with played_registry() as registry:
        yield registry


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, registry: PlayedRegistry) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("registry")
    (folder / "password").write_text("secret")
    settings = {
        "HEADRACE_FLOW": "tests.stream_jobs.registry_flow:FLOW",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "HEADRACE_SCHEMA_REGISTRY_URL": registry.url,
        "HEADRACE_SCHEMA_REGISTRY_USERNAME": "reader",
        "HEADRACE_SCHEMA_REGISTRY_PASSWORD_FILE": str(folder / "password"),
    }
    with Stack(folder / "stack", random_ports=True, settings=settings) as stack:
        yield stack


def _tried(stack: Stack, body: bytes) -> Any:
    """What the desk says would become of it."""
    answer = httpx.post(f"{stack.desk_url}/api/try/meter/m-1", content=body, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_names_a_schema_waits_for_the_registry_and_then_all_goes_in_order(
    stack: Stack, registry: PlayedRegistry
) -> None:
    number = registry.register(METER)
    registry.away = answering(503)

    def post(path: str, body: bytes) -> None:
        answer = httpx.post(f"{stack.gateway_url}/v1/{path}", content=body, timeout=30)
        assert answer.status_code == 202, answer.text

    for kwh in range(20):
        post(f"meter/m-{kwh % 2}", framed(number, METER, {"kwh": kwh}))
    post("by_hand/m-9", b'{"kwh": 7.5}')
    wait_for_states(stack, {("meter", "m-9"): {"kwh": [7.5]}}, within_s=240)
    eventually(
        lambda: len(read_topic(stack.kafka_bootstrap, "retry.enrich.v1")) >= 20, within_s=240
    )
    tried = _tried(stack, framed(number, METER, {"kwh": 5}))
    assert (tried["outcome"], tried["detail"]) == (
        "waits",
        "schema_registry is away: it answers 503",
    )
    registry.away = None
    states = {("meter", f"m-{own}"): {"kwh": [*map(float, range(own, 20, 2))]} for own in (0, 1)}
    wait_for_states(stack, states, within_s=240)
    tried = _tried(stack, framed(number, METER, {"kwh": 5}))
    assert (tried["outcome"], tried["decoded"]["value"]) == ("event", {"kwh": 5.0})
    assert read_topic(stack.kafka_bootstrap, "dlq.enrich.v1") == []
    assert len(read_topic(stack.kafka_bootstrap, "event.metered.v1")) == 21
