import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.ports import accepts, free_port, is_free
from local_stack.stack import Stack


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
    settings = {"HEADRACE_GATEWAY_PORT": str(taken)}
    stack = Stack(tmp_path, settings=settings, report=said.append)
    assert stack._choose_port("gateway") != taken
    assert f"port {taken} is taken" in said[0]
