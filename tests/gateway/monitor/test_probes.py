"""A server that is not up is told apart from one that hangs: it is mended elsewhere."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.monitor.probes import KafkaProbe, look_at_postgres
from shared.kafka_access import KafkaAccess

pytestmark = pytest.mark.slow  # they wait for it
HOST = "127.0.0.1"


@pytest.fixture
def hangs() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.create_server((HOST, 0)) as server:
        yield f"{HOST}:{server.getsockname()[1]}"


@pytest.fixture
def not_up() -> str:
    with socket.create_server((HOST, 0)) as server:
        return f"{HOST}:{server.getsockname()[1]}"


def _kafka_at(address: str) -> set[str]:
    """What is said in a row: the client tells the same error only once in a while."""
    probe = KafkaProbe(KafkaAccess(address), ["ingest.telemetry.v1"], [])
    seen = [probe.look().server for _ in range(3)]
    assert not any(one.works for one in seen)
    return {one.output for one in seen}


def _postgres_at(address: str) -> str:
    seen = look_at_postgres(f"postgresql://somebody@{address}/headrace")
    assert not seen.works
    return seen.output


def test_kafka(hangs: str, not_up: str) -> None:
    assert _kafka_at(not_up) == {"Kafka is not up: nobody takes connections at its address"}
    assert _kafka_at(hangs) == _kafka_at(f"{not_up},{hangs}") == {"Kafka does not answer"}


def test_postgres(hangs: str, not_up: str) -> None:
    assert _postgres_at(not_up).startswith("PostgreSQL is not up: ")
    assert _postgres_at(hangs) == _postgres_at(f"{not_up},{hangs}") == "PostgreSQL does not answer"


def test_nothing_is_claimed_of_an_address_that_cannot_be_looked_at(tmp_path: Path) -> None:
    for url in (f"postgresql://somebody@/headrace?host={tmp_path}", "postgresql://[no-address/x"):
        assert look_at_postgres(url).output == "PostgreSQL does not answer"
