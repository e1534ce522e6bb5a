"""What one caller holds leaves room for others."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import httpx
import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.ingest.admission import Admission
from shared.settings import GatewaySettings
from tests.gateway.auth.support import device, table
from tests.gateway.server.test_wire import _answer
from tests.gateway.support import Served, built, serving

NOISY, QUIET = device("noisy", "acme"), device("quiet", "acme")


class Room(NamedTuple):
    served: Served
    settings: GatewaySettings

    def post(self, size_bytes: int) -> httpx.Response:
        url = f"{self.served.url}/v1/telemetry/quiet"
        return httpx.post(url, content=b"x" * size_bytes, headers=QUIET.headers)


@pytest.fixture
def room(settings: GatewaySettings) -> Iterator[Room]:
    patient = settings.model_copy(update={"body_pause_max_s": 30, "body_deadline_s": 30})
    with serving(
        built(patient, who=CredentialAuthenticator(table(NOISY, QUIET))), patient
    ) as served:
        yield Room(served, patient)


def test_slow_uploads_of_one_caller_do_not_keep_another_out(room: Room) -> None:
    head = (
        f"POST /v1/telemetry/noisy HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n"
        f"Authorization: {NOISY.headers['authorization']}\r\n\r\n"
    )
    with ExitStack() as open_:
        slow = [open_.enter_context(room.served.connect()) for _ in range(4)]
        for connection in slow:
            connection.sendall(head.encode() + b"x" * 890)
        assert room.post(700).status_code == 202
        for connection in slow[2:]:  # 2 x 890 of 3000 bytes it may hold, three quarters at most
            status, _, problem = _answer(connection)
            assert (status, problem["code"]) == (429, "too_many_bytes_of_caller")
            assert problem["outcome"] == "definite"
            assert "HEADRACE_IN_FLIGHT_SHARE_MAX" in str(problem["detail"])
        assert room.post(700).status_code == 202
        for connection in slow[:2]:
            connection.sendall(b"x" * 10)
            assert _answer(connection)[0] == 202
    with room.served.connect() as connection:
        connection.sendall(head.encode() + b"x" * 900)
        assert _answer(connection)[0] == 202


def test_a_share_is_a_limit_only_where_room_is_scarce() -> None:
    admission = Admission(1, 1000, 0.25)

    def takes(holder: str, size_bytes: int) -> bool:
        assert admission.hold(size_bytes)
        if admission.hold_for(holder, size_bytes):
            return True
        admission.let_go(size_bytes)
        return False

    assert takes("a", 750)
    assert not takes("a", 1)
    assert takes("b", 240)  # no more than its share
    admission.let_go(750)
    admission.let_go_for("a", 750)
    assert takes("a", 500)
    assert takes("b", 10)


def test_what_was_let_go_leaves_nothing_behind() -> None:
    admission = Admission(1, 1000, 0.25)
    assert admission.hold(300)
    assert admission.hold_for("a", 300)
    admission.let_go_for("a", 100)
    admission.let_go_for("a", 200)
    admission.let_go(300)
    assert (admission.bytes, admission.bytes_of) == (0, {})


def test_small_bodies_are_counted_for_nobody() -> None:
    assert Admission(1, 32 * 1024 * 1024).small_bytes == 4096
