"""What hostile clients send, against the real server: refusals that arrive, in their turn."""

import contextlib
import re
import socket
from pathlib import Path

import pytest

from tests.gateway.server.test_wire import PATH, _answer, _ends, _head
from tests.gateway.support import Gateway, GatewayProcess, Served, until

GOOD = _head("Content-Length: 4") + b"good"
SMUGGLED = GOOD.replace(b"good", b"evil")


def _send_until_cut(connection: socket.socket, piece: bytes) -> int:
    """How many bytes went out; the server goes on reading for a while, so that its answer lives."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < 64 * 1024 * 1024:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize(
    ("begin", "piece", "refusal"),
    [
        (b"GET /", b"x" * 60_000, (414, "target_too_long")),
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 60_000, (431, "head_too_large")),
        (b"GET / HTTP/1.1\r\n", b"x: y\r\n" * 10_000, (431, "head_too_large")),
        (b"", b"\r\n" * 30_000, (431, "head_too_large")),
        (_head("Transfer-Encoding: chunked"), b"0" * 60_000, (400, "bad_chunks")),
        (_head("Transfer-Encoding: chunked") + b"1;x=", b"y" * 60_000, (400, "bad_chunks")),
    ],
    ids=["target", "header", "headers", "empty lines", "chunk size", "chunk extension"],
)
def test_what_never_ends_is_refused_while_it_comes_and_then_cut(
    gateway: Gateway, served: Served, begin: bytes, piece: bytes, refusal: tuple[int, str]
) -> None:
    with served.connect() as connection:
        connection.sendall(begin)
        for _ in range(6):  # one read takes 256 KiB at most
            connection.sendall(piece)
        status, head, problem = _answer(connection)
        assert (status, problem["code"], problem["outcome"]) == (*refusal, "definite")
        assert b"connection: close" in head
        assert _send_until_cut(connection, piece) < 64 * 1024 * 1024
    assert gateway.log.records == []


def test_a_refusal_waits_for_the_answers_before_it(gateway: Gateway, served: Served) -> None:
    gateway.log.pause_s = 0.2
    with served.connect() as connection:
        connection.sendall(GOOD + b"garbage\r\n\r\n" + SMUGGLED)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert re.findall(rb"^HTTP/1.1 (\d+)|}HTTP/1.1 (\d+)", received) == [
        (b"202", b""),
        (b"", b"400"),
    ]
    assert [record.value for record in gateway.log.records] == [b"good"]


def test_a_broken_body_takes_nothing_from_the_request_before_it(
    gateway: Gateway, served: Served
) -> None:
    gateway.log.pause_s = 0.2
    with served.connect() as connection:
        broken = _head("Transfer-Encoding: chunked") + b"4\r\nevil\r\nno size\r\n"
        connection.sendall(GOOD + broken + SMUGGLED)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert re.findall(rb"^HTTP/1.1 (\d+)|}HTTP/1.1 (\d+)", received) == [
        (b"202", b""),
        (b"", b"400"),
    ]
    assert [record.value for record in gateway.log.records] == [b"good"]


def test_a_body_that_breaks_after_its_beginning_is_refused_and_holds_no_memory(
    gateway: Gateway, served: Served
) -> None:
    for _ in range(5):  # more than there is room for at once
        with served.connect() as connection:
            connection.sendall(_head("Transfer-Encoding: chunked") + b"384\r\n" + b"x" * 900)
            connection.sendall(b"\r\nno size\r\n")
            status, _, problem = _answer(connection)
            assert (status, problem["code"]) == (400, "malformed_request")
            assert _ends(connection)
    with served.connect() as connection:
        connection.sendall(GOOD)
        assert _answer(connection)[0] == 202
    assert [record.value for record in gateway.log.records] == [b"good"]


@pytest.mark.parametrize("path", ["/v1/telemetry/-bad-", "/livez", "/nowhere"])
def test_an_expectation_that_was_not_met_ends_the_connection(
    gateway: Gateway, served: Served, path: str
) -> None:
    head = _head(f"Content-Length: {len(SMUGGLED)}", "Expect: 100-continue")
    with served.connect() as connection:
        connection.sendall(head.replace(PATH.encode(), path.encode()))
        assert _answer(connection)[0] in (400, 404, 405)
        with contextlib.suppress(OSError):
            connection.sendall(GOOD)  # the body, or the next request? nobody can tell
        assert _ends(connection)
    assert gateway.log.records == []


def test_the_client_that_says_it_is_its_last_request_hears_a_refusal_too(served: Served) -> None:
    head = _head("Content-Length: 5000000", "Connection: close").replace(b"device-0001", b"-bad-")
    with served.connect() as connection:
        connection.sendall(head + b"x" * 5_000_000)
        assert _answer(connection)[0] == 400
        assert _ends(connection)


_LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d [0-9:,]+ [A-Z]+ [a-z_.]+: [^\x00-\x1f\x7f]+")
INJECTIONS = (
    b"GET /\r\nFAKE LINE HTTP/1.1\r\n\r\n",
    b"GET /%0d%0aFAKE%20LINE HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\x1b[31mFAKE HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /nowhere/%1b[31mFAKE HTTP/1.1\r\nHost: a\r\n\r\n",
    b"FAKE\x00LINE / HTTP/1.1\r\n\r\n",
    _head("Content-Length: 4").replace(b"device-0001", b"FAKE%0aLINE") + b"good",
    _head("Content-Length: 4").replace(b"device-0001", b"FAKE%e2%80%a8LINE") + b"good",
    _head("Content-Length: 4", "Idempotency-Key: FAKE\x0bLINE") + b"good",
    _head("Content-Length: 4", "Idempotency-Key: FAKE LINE") + b"good",
    _head("Content-Length: 4", "traceparent: FAKE\x1bLINE") + b"good",
    _head("Content-Length: 4", "Content-Type: FAKE\u2028LINE") + b"good",
    _head("Upgrade: FAKE LINE", "Content-Length: 4") + b"good",
    _head("Content-Length: FAKE"),
    _head("Transfer-Encoding: chunked") + b"FAKE LINE\r\n",
    b"GET /state/FAKE%0aLINE HTTP/1.1\r\nHost: FAKE\r\n\r\n",
    b"GET /state/FAKE/%00LINE HTTP/1.1\r\nHost: FAKE\r\n\r\n",
)


@pytest.mark.slow
def test_nothing_that_a_client_says_reaches_the_log(tmp_path: Path) -> None:
    written = tmp_path / "log"
    gateway = GatewayProcess("127.0.0.1:1", tmp_path, produce_deadline_s=1)
    with written.open("wb") as output:
        gateway.start(stderr=output)
    served = Served("127.0.0.1", gateway.port)
    try:
        for request in INJECTIONS:
            with served.connect() as connection:
                connection.sendall(request)
                head = _answer(connection)[1]
            assert b"FAKE" not in head
    finally:
        gateway.stop()
        gateway.client.close()
    lines = written.read_bytes().splitlines()
    assert any(b"Started server process" in line for line in lines), lines
    assert [line for line in lines if b"FAKE" in line or not _LOG_LINE.match(line)] == []


def test_a_fault_of_ours_logs_no_more_of_the_client_than_its_path_as_sent(
    gateway: Gateway, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.log.failure = RuntimeError("a fault of ours")
    with served.connect() as connection:
        connection.sendall(_head("Content-Length: 4", "X-Fake: FAKE LINE") + b"FAKE")
        status, _, problem = _answer(connection)
    assert (status, problem["code"]) == (500, "internal_fault")
    until(lambda: "a fault of ours" in caplog.text, 5)
    assert "FAKE" not in caplog.text
    assert "a fault of ours" not in str(problem)
