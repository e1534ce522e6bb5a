"""A server that is not up is told apart from one that hangs: it is mended elsewhere."""

import socket
from collections.abc import Iterator

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


def _kafka_at(address: str) -> str:
    seen = KafkaProbe(KafkaAccess(address), ["ingest.telemetry.v1"], []).look()
    assert not seen.server.works
    return seen.server.output


def _postgres_at(address: str) -> str:
    seen = look_at_postgres(f"postgresql://somebody@{address}/headrace")
    assert not seen.works
    return seen.output


def test_kafka(hangs: str, not_up: str) -> None:
    assert _kafka_at(not_up).startswith("Kafka is not up: ")
    assert _kafka_at(hangs) == "Kafka does not answer"


def test_postgres(hangs: str, not_up: str) -> None:
    assert _postgres_at(not_up).startswith("PostgreSQL is not up: ")
    assert _postgres_at(hangs) == "PostgreSQL does not answer"
