import socket
from contextlib import ExitStack

import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.event_streams import hub
from shared.settings import GatewaySettings
from tests.gateway.auth.support import Given, device, table
from tests.gateway.event_streams.played import PlayedLog
from tests.gateway.server.test_wire import _answer
from tests.gateway.support import built, serving

GREEDY, OTHER = device("greedy", "acme"), device("other", "acme")


def test_one_device_cannot_take_all_streams(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LiveReader", PlayedLog)
    few = settings.model_copy(update={"event_streams_max": 4})
    gateway = built(few, who=CredentialAuthenticator(table(GREEDY, OTHER)))
    with serving(gateway, few) as served, ExitStack() as open_:

        def stream(of: Given) -> socket.socket:
            connection = open_.enter_context(served.connect())
            head = "GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: "
            connection.sendall(f"{head}{of.headers['authorization']}\r\n\r\n".encode())
            return connection

        def is_shown(connection: socket.socket) -> bool:
            return connection.recv(65536).startswith(b"HTTP/1.1 200")

        assert all(is_shown(stream(GREEDY)) for _ in range(3))
        status, head, problem = _answer(stream(GREEDY))
        assert (status, problem["code"]) == (429, "too_many_streams_of_caller")
        assert b"retry-after" in head
        assert is_shown(stream(OTHER))
        assert _answer(stream(OTHER))[0] == 503  # there are four
