import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.machine.ports import accepts, free_port, is_free
from local_stack.servers.addresses import Addresses


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_port_that_somebody_listens_on_is_not_free(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert not is_free(port)
    assert accepts(port)


def test_a_free_port_is_none_of_those_taken_already() -> None:
    port = free_port()
    assert is_free(port)
    assert free_port({port}) != port


def test_a_taken_port_is_replaced_and_said(tmp_path: Path, listener: socket.socket) -> None:
    taken = listener.getsockname()[1]
    said: list[str] = []
    addresses = Addresses(tmp_path, {"HEADRACE_GATEWAY_PORT": str(taken)}, ["gateway"])
    addresses.choose_ports(said.append, random_ports=False)
    assert addresses.ports["gateway"] != taken
    assert f"port {taken} is taken: gateway listens on" in said[0]


def test_an_existing_server_given_by_setting_wins(tmp_path: Path) -> None:
    settings = {
        "HEADRACE_KAFKA_BOOTSTRAP": "broker:9092",
        "HEADRACE_POSTGRES_URL": "postgresql://x",
    }
    addresses = Addresses(tmp_path, settings, ["kafka", "postgres", "gateway"])
    assert addresses.kafka_bootstrap == "broker:9092"
    assert addresses.postgres_url("headrace_jobs") == "postgresql://x"
    assert [name for name in ("kafka", "postgres", "gateway") if addresses.embedded(name)] == [
        "gateway"
    ]
