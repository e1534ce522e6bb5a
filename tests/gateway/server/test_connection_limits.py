import gc
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.server.connection import HttpConnection
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
