"""The corpus against the real server: no request is cut in two, and no body is cut or lost."""

import contextlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from shared.settings import GatewaySettings
from tests.gateway.smuggling_corpus import CORPUS, Vector
from tests.gateway.support import Gateway, Served, gateway_of, serving

NEXT = b"the next request"
AFTERWARDS = (
    b"POST /v1/telemetry/device-0002 HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(NEXT), NEXT)
)


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Served]]:
    settings = GatewaySettings(
        state_dir=tmp_path_factory.mktemp("smuggling"),
        body_bytes_max=1000,
        head_deadline_s=0.5,
        keep_alive_s=0.5,
        body_pause_max_s=0.5,
        hosts="gateway",
    )
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        yield gateway, served


@pytest.mark.parametrize("vector", CORPUS, ids=lambda vector: vector.name)
def test_is_refused_as_a_whole_or_taken_as_one(
    target: tuple[Gateway, Served], vector: Vector
) -> None:
    gateway, served = target
    gateway.log.records.clear()
    answers = exchange(served, vector)
    written = [record.value for record in gateway.log.records]
    assert lapse(vector, answers, written) is None
    if vector.taken is None:
        (refusal,) = answers
        assert b"content-type: application/problem+json" in refusal.head
        assert b"connection: close" in refusal.head
        if not vector.sent.startswith(b"HEAD"):  # its answer has no body
            assert json.loads(refusal.body)["outcome"] == "definite"


def test_there_are_enough_vectors_and_each_has_its_own_name() -> None:
    assert len({vector.name for vector in CORPUS}) == len(CORPUS) >= 60


def lapse(vector: Vector, answers: list[Answer], written: list[bytes]) -> str | None:
    """What went wrong, if anything."""
    statuses = [answer.status for answer in answers]
    if vector.taken is None:
        if written:
            return f"written: {written}"
        if len(statuses) != 1 or not 400 <= statuses[0] < 500:
            return f"answers {statuses} instead of one refusal and an end"
        return None
    if written not in ([vector.taken, NEXT], [vector.taken]):
        return f"written: {written}"
    if statuses[0] != 202 or statuses[1:] not in ([], [202], [400]):
        return f"answers {statuses}"
    if statuses.count(202) != len(written):
        return f"{statuses} for {len(written)} payloads"
    return None


def exchange(served: Served, vector: Vector) -> list[Answer]:
    """All answers until the server ends the connection; what is taken is followed by another
    request, which must be found where it begins."""
    with served.connect() as connection:
        connection.sendall(vector.sent)
        received = b""
        if vector.taken is not None:
            received = connection.recv(65536)
            with contextlib.suppress(OSError):  # it was the last request
                connection.sendall(AFTERWARDS)
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
    return _cut(received)


def _cut(received: bytes) -> list[Answer]:
    answers = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        head = head.lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        answers.append(Answer(int(head.split()[1]), head, rest[:length]))
        received = rest[length:]
    return answers
