import asyncio
import gc
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.server.connection import HttpConnection
from gateway.server.connection_limits import Connections
from shared.settings import GatewaySettings
from tests.gateway.server.test_wire import _answer, _ends, _head
from tests.gateway.support import Served, gateway_of, serving, until

POST = _head("Content-Length: 4") + b"next"


def _served(folder: Path, **settings: int) -> GatewaySettings:
    return GatewaySettings(state_dir=folder, hosts="gateway", **settings)  # type: ignore[arg-type]


def _is_taken(served: Served) -> bool:
    with served.connect() as connection:
        connection.sendall(POST)
        return _answer(connection)[0] == 202


def test_more_connections_than_there_may_be_are_told_so(tmp_path: Path) -> None:
    settings = _served(tmp_path, connections_max=3)
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        held = [served.connect() for _ in range(3)]
        for connection in held:
            connection.sendall(POST)
            assert _answer(connection)[0] == 202
        with served.connect() as one_more:
            one_more.sendall(POST)
            status, head, problem = _answer(one_more)
            assert (status, problem["code"]) == (503, "too_many_connections")
            assert problem["outcome"] == "definite"
            assert b"retry-after: 1" in head
            assert _ends(one_more)
        held.pop().close()
        until(lambda: _is_taken(served), 5)
        for connection in held:
            connection.close()
    assert {record.value for record in gateway.log.records} == {b"next"}


def test_an_address_has_its_share_of_connections(tmp_path: Path) -> None:
    settings = _served(tmp_path, connections_per_address_max=2)
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        with served.connect(), served.connect(), served.connect() as third:
            status, _, problem = _answer(third)
            assert (status, problem["code"]) == (503, "too_many_connections")
        until(lambda: _is_taken(served), 5)


def test_a_flood_of_connections_is_survived(tmp_path: Path) -> None:
    settings = _served(tmp_path, connections_max=3)
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        held = [served.connect() for _ in range(300)]
        for connection in held:
            connection.close()
        until(lambda: _is_taken(served), 5)


@pytest.mark.slow
@pytest.mark.parametrize(("hard", "affordable"), [(1000, 808), (200, 8), (20_000, 10_000)])
def test_no_more_connections_are_promised_than_there_are_descriptors(
    hard: int, affordable: int
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip(f"fewer than {hard} descriptors may be opened here")
    script = (
        "import resource; from gateway.server.connection_limits import affordable\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}))\n"
        "print(affordable(10_000))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=30
    )
    assert int(told.stdout) == affordable


def test_a_connection_that_is_over_is_freed_without_a_collector_of_cycles(tmp_path: Path) -> None:
    def there() -> int:
        return sum(isinstance(one, HttpConnection) for one in gc.get_objects())

    gc.collect()
    before = there()
    gc.disable()
    try:
        settings = _served(tmp_path)
        with gateway_of(settings) as gateway, serving(gateway, settings) as served:
            for path in (b"/v1/telemetry/device-0001", b"/livez"):
                with served.connect() as connection:
                    connection.sendall(POST.replace(b"/v1/telemetry/device-0001", path))
                    assert _answer(connection)[0]
            until(lambda: there() == before, 5)
    finally:
        gc.enable()


class _Stream:
    address = "10.0.0.1"

    def look(self, now_s: float) -> None: ...

    def cut(self) -> None: ...


def test_a_caller_with_many_streams_leaves_the_last_ones_to_others() -> None:
    connections = Connections(100, 0, 8, 0.25)

    def open_(holder: object, number: int = 1) -> list[str]:
        found = [connections.set_aside(one, holder) for one in [_Stream() for _ in range(number)]]
        return [problem.code for problem in found if problem is not None]

    assert open_("one", 6) == []  # while there is room for others
    last = _Stream()
    problem = connections.set_aside(last, "one")
    assert problem is not None
    assert (problem.status, problem.code) == (429, "too_many_streams_of_caller")
    assert "HEADRACE_EVENT_STREAMS_SHARE_MAX" in problem.detail
    assert int(problem.headers["retry-after"]) > 0
    assert open_("other", 3) == ["too_many_streams"]
    assert open_("one") == ["too_many_streams"]


def test_a_stream_that_is_over_counts_for_nobody() -> None:
    async def run() -> None:
        connections, one, other = Connections(100, 0, 2, 0.5), _Stream(), _Stream()
        for connection in (one, other):
            assert connections.enter(connection) is None
        assert connections.set_aside(one, "one") is None
        refused = connections.set_aside(other, "one")
        assert refused is not None
        assert refused.code == "too_many_streams_of_caller"
        connections.leave(one)
        assert connections.set_aside(other, "one") is None

    asyncio.run(run())
