"""Clients that never finish: ended by their deadline, while the honest ones are served."""

import asyncio
import json
import socket
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.slow_clients import SHAPES, attack
from shared.settings import GatewaySettings
from tests.gateway.server.test_wire import PATH, _answer, _ends, _head
from tests.gateway.support import Gateway, Served, gateway_of, serving

pytestmark = pytest.mark.slow

# a busy machine's share; the clients that are not ended at all would last for ever
_LATE_S = 15.0


def test_every_kind_of_slow_client_is_ended_and_honest_ones_are_served_meanwhile(
    tmp_path: Path,
) -> None:
    settings = GatewaySettings(
        state_dir=tmp_path,
        head_deadline_s=1.5,
        body_pause_max_s=1.5,
        body_deadline_s=2.5,
        hosts="gateway",
    )

    async def run(served: Served) -> list[int]:
        slow = asyncio.create_task(attack(served.host, served.port, 20, 0.1, 30.0))
        statuses = []
        while not slow.done():
            statuses.append(await _post(served))
            await asyncio.sleep(0.05)
        for client in slow.result():
            deadline_s = client.shape.deadline_s(settings)
            assert client.lasted_s is not None, client.shape.name
            assert deadline_s <= client.lasted_s + 0.05 <= deadline_s + _LATE_S, client.shape.name
            told[client.shape.name].add(client.answer[:13])
        return statuses

    told: defaultdict[str, set[bytes]] = defaultdict(set)
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        statuses = asyncio.run(run(served))
    for shape in SHAPES:
        hears = {b"HTTP/1.1 408 "} if shape.opening else {b""}
        # what still sends when it is cut may find that out before it reads
        assert told[shape.name] - {b""} == hears - {b""}
    assert statuses == [202] * len(statuses) != []
    assert {record.value for record in gateway.log.records} == {b"honest"}


async def _post(served: Served) -> int:
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(_head("Content-Length: 6", "Connection: close") + b"honest")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])


def test_a_kept_connection_on_which_nothing_comes_is_closed_without_a_word(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 4") + b"once")
        assert _answer(connection)[0] == 202
        assert connection.recv(1) == b""


def test_empty_lines_keep_no_connection_open(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 4") + b"once")
        assert _answer(connection)[0] == 202
        connection.settimeout(0.1)
        for _ in range(100):
            connection.sendall(b"\r\n")
            try:
                assert connection.recv(1) == b""
                return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection stays open")


def test_a_head_that_stops_is_told_why_it_is_refused(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nX-Slow: ".encode())
        status, head, problem = _answer(connection)
        assert (status, problem["code"], problem["outcome"]) == (408, "head_too_slow", "definite")
        assert b"connection: close" in head
        assert _ends(connection)


@pytest.mark.parametrize("path", ["/livez", "/nowhere", "/state/device-0001"])
def test_a_body_that_nobody_wants_is_bounded_too(served: Served, path: str) -> None:
    with served.connect() as connection:
        request = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx"
        connection.sendall(request.encode())
        assert _answer(connection)[0] in (404, 405)
        assert _ends(connection)


def test_a_client_that_never_reads_its_answers_is_cut_off(served: Served) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect((served.host, served.port))
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(request)


def test_of_too_many_pipelined_requests_the_last_is_refused_in_its_turn(
    gateway: Gateway, served: Served
) -> None:
    gateway.log.pause_s = 0.01
    requests = [_head("Content-Length: 3") + b"%03d" % n for n in range(120)]
    with served.connect() as connection:
        connection.sendall(b"".join(requests))
        received = b""
        while data := connection.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1 202 ") == len(gateway.log.records) == 100
    assert json.loads(received.rpartition(b"\r\n\r\n")[2])["code"] == "too_many_pipelined"
