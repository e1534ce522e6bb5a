"""The domain as its author starts it: by `HEADRACE_FLOW`, from a folder outside of the packages."""

from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import psycopg
import pytest

from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from tests.flights.conftest import FOLDER
from tests.kafka_log import eventually, read_topic

pytestmark = pytest.mark.stack

LIFE = [
    {"what": "scheduled", "origin": "FRA", "destination": "JFK"},
    {"what": "gate_changed", "gate": "B44"},
    {"what": "delayed", "minutes": 25},
    {"what": "gate_changed", "gate": "B46"},
    {"what": "departed", "at": "2026-01-01T12:25:00Z"},
    {"what": "arrived", "at": "2026-01-01T20:40:00Z"},
]
LANDED = {
    "flight": "LH400",
    "status": "arrived",
    "origin": "FRA",
    "destination": "JFK",
    "gate": "B46",
    "gate_before": "B44",
    "delay_minutes": 25,
    "departed_at_ms": 1_767_270_300_000,
    "arrived_at_ms": 1_767_300_000_000,
    "cancelled_because": None,
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"HEADRACE_FLOW": "flights:FLOW", "PYTHONPATH": str(FOLDER)}
    folder = tmp_path_factory.mktemp("flights")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


def _post(stack: Stack, flight: str, message: dict[str, Any]) -> str:
    response = httpx.post(f"{stack.gateway_url}/v1/flight/{flight}", json=message, timeout=30)
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def test_the_life_of_a_flight_becomes_its_state_rows_and_completions(stack: Stack) -> None:
    ids = [_post(stack, "LH400", message) for message in LIFE]
    state = f"{stack.gateway_url}/state/flight/LH400"

    def shown() -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(state, timeout=30).json()
        return answer

    eventually(lambda: shown().get("version") == len(LIFE), within_s=240)
    assert shown()["state"] == LANDED

    def rows() -> dict[str, Any]:
        with psycopg.connect(stack.postgres_url) as connection:
            found = connection.execute(
                "SELECT event_id, data FROM headrace.event WHERE event_id = ANY(%s)", (ids,)
            )
            return dict(found.fetchall())

    eventually(lambda: rows() == dict(zip(ids, LIFE, strict=True)), within_s=240)

    def completions() -> list[str]:
        kinds = {message["what"] for message in LIFE}
        return [
            orjson.loads(record.value or b"")["event_id"]
            for kind in kinds
            for record in read_topic(stack.kafka_bootstrap, f"completion.{kind}.v1")
        ]

    eventually(lambda: sorted(completions()) == sorted(ids), within_s=240)


def test_a_broken_message_is_a_dead_letter_with_its_reason(stack: Stack) -> None:
    broken = _post(stack, "LH401", {"what": "delayed", "minutes": "a few"})

    def parked() -> dict[str, tuple[str, str]]:
        return {
            record.headers["ce_id"].decode(): (
                record.headers["ce_reason"].decode(),
                record.headers["ce_detail"].decode(),
            )
            for record in read_topic(stack.kafka_bootstrap, "dlq.enrich.v1")
        }

    eventually(lambda: broken in parked(), within_s=240)
    assert parked()[broken] == ("wrong_type", "delayed.minutes: Input should be a valid integer")
    assert httpx.get(f"{stack.gateway_url}/state/flight/LH401").status_code == 404


def test_another_flow_does_not_start_on_what_this_one_has_read(stack: Stack) -> None:
    eventually(lambda: any((stack.state_dir / "checkpoints/enrich/offsets").glob("0")))
    stack.stop()
    with pytest.raises(StackError, match=r"another flow: enrich has read ingest\.flight\.v1"):
        Stack(stack.state_dir, random_ports=True).start()
