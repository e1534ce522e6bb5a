"""A POST on a connection that ends, or is told something else, in the middle."""

from collections.abc import Sequence

import pytest

from gateway.auth.authenticate import NoAuthentication
from gateway.auth.caller import ANYONE
from gateway.effects.places import Places
from gateway.effects.waiting_posts import WaitingPosts
from gateway.http.message import Request
from gateway.http.problems import Problem
from gateway.ingest.accept import Ingest
from gateway.ingest.admission import Admission
from gateway.ingest.body import Body, Limit
from gateway.ingest.post_request import Post
from gateway.ingest.span import Tracing
from gateway.kafka_writer.outcome import OnWritten, Receipt, Record
from gateway.node.node import Node
from gateway.peers.states import States
from gateway.state_view.reader import StateView
from shared.flow import FLOW
from shared.settings import GatewaySettings

HEADERS = [(b"host", b"gateway"), (b"content-length", b"8")]


class Connection:
    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.answered = 0
        self._headers = [(b"date", b"today")]

    def write(self, raw: bytes) -> None:
        self.written += raw

    def close(self) -> None:
        self.closed = True

    def on_response_complete(self) -> None:
        self.answered += 1

    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._headers


class SlowLog:
    """Tells when it is asked to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Record, OnWritten]] = []

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:  # noqa: ARG002
        self.waiting.append((records[0], on_written))

    def is_healthy(self) -> bool:
        return True

    def tell(self) -> None:
        _, on_written = self.waiting.pop(0)
        on_written([Receipt("t", 0, 1)])


def _request(method: str = "POST", *more: tuple[bytes, bytes]) -> Request:
    headers = [*HEADERS, *more]
    return Request(method, b"/v1/telemetry/d", headers, dict(headers), "127.0.0.1")


class Parts:
    def __init__(self) -> None:
        self.log, self.connection = SlowLog(), Connection()
        self.admission = Admission(10, 1000)
        settings = GatewaySettings(body_bytes_max=100)
        self.ingest = Ingest(
            FLOW,
            self.log,
            self.admission,
            settings,
            NoAuthentication(),
            Node().counts,
            None,
            Tracing(),
            WaitingPosts(settings, FLOW, States(StateView(settings.state_dir)), Places(10)),
        )

    def post(self, *more: tuple[bytes, bytes], method: str = "POST", waits: bool = False) -> Post:
        return Post(self.ingest, _request(method, *more), self.connection, True, waits)

    def is_idle(self) -> bool:
        return (self.admission.bytes, self.admission.payloads) == (0, 0)


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_an_answer_has_the_connections_headers_and_its_own(parts: Parts) -> None:
    post = parts.post()
    post.start()
    post.take(b"four")
    post.take(b"four")
    post.end()
    assert (parts.admission.bytes, parts.admission.payloads) == (8, 1)
    parts.log.tell()
    head, _, body = parts.connection.written.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 202 Accepted"
    assert {b"date: today", b"location: /state/d", b"content-length: %d" % len(body)} < set(lines)
    assert (parts.connection.answered, parts.connection.closed) == (1, False)
    assert parts.is_idle()


def test_a_client_that_leaves_in_the_middle_has_written_nothing(parts: Parts) -> None:
    post = parts.post()
    post.start()
    post.take(b"half")
    post.drop("client_gone")
    assert parts.is_idle()
    assert parts.log.waiting == []


def test_a_client_that_leaves_before_its_answer_holds_nothing_up(parts: Parts) -> None:
    post = parts.post()
    post.start()
    post.take(b"the body")
    post.end()
    post.drop("client_gone")
    parts.log.tell()
    assert parts.is_idle()
    assert (parts.connection.written, parts.connection.answered) == (b"", 0)


def test_what_comes_before_its_turn_waits_for_it(parts: Parts) -> None:
    post = parts.post()
    post.take(b"the body")
    post.end()
    assert parts.log.waiting == []
    post.start()
    assert parts.log.waiting[0][0].value == b"the body"


def test_what_comes_at_once_is_taken_as_what_comes_in_parts(parts: Parts) -> None:
    parts.post().take_all(b"the body")
    assert (parts.admission.bytes, parts.admission.payloads) == (8, 1)
    assert parts.log.waiting[0][0].value == b"the body"
    parts.log.tell()
    assert parts.connection.written.startswith(b"HTTP/1.1 202 ")
    assert parts.is_idle()


def test_a_body_at_once_has_the_declared_length_or_is_refused(parts: Parts) -> None:
    parts.post().take_all(b"half")
    assert parts.connection.written.startswith(b"HTTP/1.1 400 ")
    assert parts.log.waiting == []
    assert parts.is_idle()


def test_a_client_that_waits_is_told_to_go_on_and_not_when_it_is_refused(parts: Parts) -> None:
    parts.post(waits=True).start()
    assert parts.connection.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    refused = Parts()
    refused.post((b"idempotency-key", b""), waits=True).start()
    assert refused.connection.written.startswith(b"HTTP/1.1 400 ")
    assert refused.connection.closed  # nobody can tell whether the body follows


def test_a_head_is_answered_without_a_body(parts: Parts) -> None:
    parts.post(method="HEAD").start()
    assert parts.connection.written.startswith(b"HTTP/1.1 405 ")
    assert parts.connection.written.endswith(b"\r\n\r\n")


def test_a_body_that_is_not_as_long_as_declared_is_no_payload() -> None:
    body = Body(8, Limit(100, "X"), Admission(1, 100), ANYONE, _request())
    body.take(b"half")
    with pytest.raises(Problem, match="body_incomplete"):
        body.whole()
