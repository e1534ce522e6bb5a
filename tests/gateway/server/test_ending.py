"""What clients see of a gateway that has been told to end."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import httpx
import pytest

from gateway.node.node import Node
from gateway.server.server import GatewayServer
from tests.gateway.support import Gateway, until

PATH = "/v1/telemetry/device-0001"


class Ending(NamedTuple):
    gateway: Gateway
    url: str
    tell_to_end: Callable[[], None]
    thread: threading.Thread

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url)


@pytest.fixture
def ending(gateway: Gateway, request: pytest.FixtureRequest) -> Iterator[Ending]:
    drain_s = getattr(request, "param", 60.0)  # longer than any of the tests
    node = Node()
    served = gateway.rebuilt(node=node)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    host, port = listener.getsockname()
    server = GatewayServer(served.config(gateway.settings, node), node, drain_s)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    until(lambda: server.started, 10)

    def tell_to_end() -> None:
        server.handle_exit(signal.SIGTERM, None)

    yield Ending(gateway, f"http://{host}:{port}", tell_to_end, thread)
    tell_to_end()
    tell_to_end()
    thread.join(15)
    assert not thread.is_alive()


def test_it_is_unready_at_once_and_still_takes_what_comes(ending: Ending) -> None:
    with ending.client() as client, ending.client() as newcomer:
        assert client.get("/readyz").status_code == 200
        ending.tell_to_end()
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "ending")
        assert newcomer.post(PATH, content=b"{}").status_code == 202
        assert newcomer.get("/livez").status_code == 200


@pytest.mark.slow
def test_each_answer_is_the_last_of_its_connection(ending: Ending) -> None:
    with ending.client() as client:
        assert "connection" not in client.post(PATH, content=b"{}").headers
        ending.tell_to_end()
        assert client.post(PATH, content=b"{}").headers["connection"] == "close"
        # a client that heard it opens another connection, and is served
        assert client.post(PATH, content=b"{}").status_code == 202
    time.sleep(1.2)  # the server sets its headers anew each second
    answer = httpx.post(ending.url + PATH, content=b"{}")
    assert (answer.status_code, answer.headers["connection"]) == (202, "close")


@pytest.mark.slow
@pytest.mark.parametrize("ending", [0.5], indirect=True)
def test_what_is_under_way_is_answered_and_then_the_port_is_closed(ending: Ending) -> None:
    ending.gateway.log.pause_s = 1.5  # longer than the good-bye takes
    with ThreadPoolExecutor() as pool:
        answers: list[Future[httpx.Response]] = [
            pool.submit(httpx.post, ending.url + PATH, content=b"{}", timeout=10) for _ in range(5)
        ]
        until(lambda: ending.gateway.log.asked == 5, 5)
        ending.tell_to_end()
        assert [answer.result().status_code for answer in answers] == [202] * 5
    ending.thread.join(10)
    assert not ending.thread.is_alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(ending.url + "/livez")


def test_told_twice_it_takes_nobody_new(ending: Ending) -> None:
    ending.tell_to_end()
    ending.tell_to_end()
    ending.thread.join(15)
    assert not ending.thread.is_alive()
