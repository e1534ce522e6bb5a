"""What clients do with their sockets, against the real server."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from gateway.kafka_writer.outcome import NotWritten
from tests.gateway.support import Gateway, Served

PATH = "/v1/telemetry/device-0001"
DEVICES = Path(__file__).parents[3] / "docs" / "devices.md"


def _head(*headers: str) -> bytes:
    lines = [f"POST {PATH} HTTP/1.1", "Host: gateway", *headers, "", ""]
    return "\r\n".join(lines).encode()


def _answer(connection: socket.socket) -> tuple[int, bytes, dict[str, object]]:
    """Status, head and JSON body of one answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += _some(connection)
    return int(head.split()[1]), head, json.loads(body)


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the connection ended before the answer"
    return data


def _ends(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "anything"])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("cut", [None, 1, 30, -10])
def test_an_upgrade_is_ignored_and_the_body_behind_it_arrives_whole(
    gateway: Gateway, served: Served, protocol: str, chunked: bool, cut: int | None
) -> None:
    """Java's HttpClient asks for h2c with each request that is not encrypted."""
    framing = "Transfer-Encoding: chunked" if chunked else "Content-Length: 9"
    body = b'9\r\n{"a": 12}\r\n0\r\n\r\n' if chunked else b'{"a": 12}'
    head = _head("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", framing)
    sent = head + body
    with served.connect() as connection:
        for _ in range(3):
            for part in (sent[:cut], sent[cut:]) if cut else (sent,):
                connection.sendall(part)
                time.sleep(0.01)
            status, raw, _ = _answer(connection)
            assert (status, b"101" in raw[:20]) == (202, False)
    assert [record.value for record in gateway.log.records] == [b'{"a": 12}'] * 3


def test_pipelined_upgrades_are_each_taken_at_their_place(gateway: Gateway, served: Served) -> None:
    upgrade = _head("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 3")
    plain = _head("Content-Length: 3")
    sent = upgrade + b"one" + plain + b"two" + upgrade + b"six" + upgrade + b"ten"
    with served.connect() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1 202") == 4
    assert [record.value for record in gateway.log.records] == [
        b"one",
        b"two",
        b"six",
        b"ten",
    ]


def test_a_declared_body_over_the_cap_is_refused_before_it_is_sent(
    gateway: Gateway, served: Served
) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 1001", "Expect: 100-continue"))
        status, _, problem = _answer(connection)
        assert (status, problem["outcome"]) == (413, "definite")
    assert gateway.log.records == []


def test_a_client_that_sends_a_huge_declared_body_hears_the_refusal(served: Served) -> None:
    body = b"x" * 5_000_000
    with served.connect() as connection:
        connection.sendall(_head(f"Content-Length: {len(body)}") + body)
        assert _answer(connection)[0] == 413
        assert _ends(connection)


def test_a_chunked_body_is_refused_at_the_cap_and_the_client_hears_it(
    gateway: Gateway, served: Served
) -> None:
    chunk = b"200\r\n" + b"x" * 512 + b"\r\n"
    with served.connect() as connection:
        connection.sendall(_head("Transfer-Encoding: chunked"))
        for _ in range(200):
            connection.sendall(chunk)
        connection.sendall(b"0\r\n\r\n")
        status, head, _ = _answer(connection)
        assert status == 413
        assert b"connection: close" in head.lower()
        assert _ends(connection)
    assert gateway.log.records == []


def test_a_chunked_body_that_never_ends_is_cut_off(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Transfer-Encoding: chunked") + b"500\r\n" + b"x" * 0x500)
        assert _answer(connection)[0] == 413
        assert _ends(connection)


def test_a_client_that_leaves_in_the_middle_of_its_body_has_written_nothing(
    gateway: Gateway, served: Served
) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 9") + b'{"a"')
        time.sleep(0.1)
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 4") + b"next")
        assert _answer(connection)[0] == 202
    assert [record.value for record in gateway.log.records] == [b"next"]


def test_a_refusal_does_not_spoil_the_next_request_on_the_connection(
    gateway: Gateway, served: Served
) -> None:
    bad = _head("Content-Length: 9").replace(b"device-0001", b"-bad-") + b'{"a": 12}'
    with served.connect() as connection:
        connection.sendall(bad)
        assert _answer(connection)[0] == 400
        connection.sendall(_head("Content-Length: 4") + b"next")
        assert _answer(connection)[0] == 202
    assert [record.value for record in gateway.log.records] == [b"next"]


def test_a_body_that_was_read_whole_and_refused_ends_no_connection(
    gateway: Gateway, served: Served
) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 4", "Expect: 100-continue"))
        assert _some(connection).startswith(b"HTTP/1.1 100 ")
        gateway.log.failure = NotWritten("kafka_unreachable", "Kafka is away")
        connection.sendall(b"gone")
        status, head, _ = _answer(connection)
        assert (status, b"connection: close" in head.lower()) == (503, False)
        gateway.log.failure = None
        connection.sendall(_head("Content-Length: 4") + b"next")
        assert _answer(connection)[0] == 202


def _too_slow(answer: tuple[int, bytes, dict[str, object]]) -> None:
    status, head, problem = answer
    assert (status, problem["code"], problem["outcome"]) == (408, "body_too_slow", "definite")
    assert b"connection: close" in head.lower()


def test_bodies_that_never_end_do_not_keep_the_others_out(gateway: Gateway, served: Served) -> None:
    idle = [served.connect() for _ in range(3)]
    for connection in idle:
        connection.sendall(_head("Content-Length: 1000") + b"x" * 700)
    for connection in idle:
        _too_slow(_answer(connection))
        assert _ends(connection)
        connection.close()
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 1000") + b"x" * 1000)
        assert _answer(connection)[0] == 202
    assert len(gateway.log.records) == 1


@pytest.mark.slow
def test_a_body_that_drips_is_refused_at_the_deadline(gateway: Gateway, served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 1000"))
        connection.settimeout(gateway.settings.body_pause_max_s / 5)
        for _ in range(100):
            connection.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                connection.recv(1, socket.MSG_PEEK)
                break
        connection.settimeout(10)
        _too_slow(_answer(connection))
    assert gateway.log.records == []


def test_a_slow_body_in_pieces_arrives_whole(gateway: Gateway, served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 6"))
        for piece in (b"a", b"\0b", b"\xff\xfec"):
            connection.sendall(piece)
            time.sleep(0.05)
        assert _answer(connection)[0] == 202
    assert gateway.log.records[0].value == b"a\0b\xff\xfec"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_batches_of_the_page_for_devices_run_as_they_stand(
    gateway: Gateway, served: Served
) -> None:
    (example,) = re.findall(r"```sh\n(printf .+?)```", DEVICES.read_text(), re.S)
    command = example.replace("http://127.0.0.1:8080", served.url)
    subprocess.run(["bash", "-c", command], check=True, capture_output=True, timeout=30)
    assert [(record.key, record.value) for record in gateway.log.records] == [
        (b"device-0001", b'{"value": 1}'),
        (b"device-0001", b'{"value": 2}'),
        (b"device-0011", b'{"value": 5}'),
        (b"device-0012", b'{"value": 6}'),
    ]


def _post_to(entity_id: str, body: bytes) -> bytes:
    head = _head(f"Content-Length: {len(body)}")
    return head.replace(b"device-0001", entity_id.encode()) + body


def test_a_head_that_is_sent_again_is_the_same_request(gateway: Gateway, served: Served) -> None:
    """Alone, in halves, and with another one before or behind it."""
    both = _post_to("a", b"3") + _post_to("b", b"4")
    sent = [[both], [_post_to("a", b"5")], [_post_to("b", b"6")], [both], [_post_to("a", b"7")]]
    sent += [[_post_to("a", b"8")[:30], _post_to("a", b"8")[30:]], [both[:-1], both[-1:]]]
    with served.connect() as connection:
        for parts in sent:
            for part in parts:
                connection.sendall(part)
                time.sleep(0.02)
            answers = b""
            while answers.count(b"HTTP/1.1 202") < b"".join(parts).count(b"POST"):
                answers += _some(connection)
    written = b"".join(record.key + record.value for record in gateway.log.records)
    assert written == b"a3b4a5b6a3b4a7a8a3b4"


def test_a_head_that_was_taken_is_refused_when_the_log_is_not_well(
    gateway: Gateway, served: Served
) -> None:
    with served.connect() as connection:
        connection.sendall(_post_to("a", b"1"))
        assert _answer(connection)[0] == 202
        gateway.log.failure = NotWritten("kafka_unreachable", "Kafka is away")
        connection.sendall(_post_to("a", b"2"))
        assert _answer(connection)[0] == 503
        gateway.log.failure = None
        connection.sendall(_post_to("a", b"3"))
        assert _answer(connection)[0] == 202
