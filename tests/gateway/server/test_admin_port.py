"""Two ports: devices find only what is for them."""

from collections.abc import Iterator

import httpx
import pytest

from gateway.monitor.metrics import Metrics
from gateway.node.node import Node
from gateway.server.server import CannotListenError, listen
from tests.gateway.support import Gateway, Served, serving

FOR_OPERATORS = ("/health", "/metrics", "/docs", "/openapi.json")
FOR_BOTH = ("/livez", "/readyz")
# and what other servers are known to show
NOWHERE = ("/", "/redoc", "/admin", "/docs/oauth2-redirect", "/debug", "/config", "/env", "/status")


@pytest.fixture
def ports(gateway: Gateway) -> Iterator[tuple[Served, Served]]:
    """That for devices, that for operators."""
    settings = gateway.settings
    sockets = listen("127.0.0.1", 0, "HEADRACE_ADMIN_PORT")
    both = gateway.rebuilt(metrics=Metrics(Node()), admin_sockets=sockets)
    admin = Served(*sockets[0].getsockname())
    with serving(both, settings) as main:
        yield main, admin


def test_the_port_for_devices_answers_its_list_and_nothing_else(
    ports: tuple[Served, Served],
) -> None:
    main, _ = ports
    allowed = {"/livez": 200, "/readyz": 200, "/state/device-0001": 503}
    crawled = (*FOR_OPERATORS, *FOR_BOTH, *NOWHERE, *allowed)
    with httpx.Client(base_url=main.url) as client:
        found = {path: client.get(path).status_code for path in crawled}
        assert found == {path: allowed.get(path, 404) for path in crawled}
        assert client.post("/v1/telemetry/device-0001", content=b"{}").status_code == 202


def test_the_port_for_operators_takes_no_payloads(ports: tuple[Served, Served]) -> None:
    _, admin = ports
    with httpx.Client(base_url=admin.url) as client:
        found = {path: client.get(path).status_code for path in (*FOR_OPERATORS, *FOR_BOTH)}
        assert found == {path: 503 if path == "/health" else 200 for path in found}
        assert client.post("/v1/telemetry/device-0001", content=b"{}").status_code == 404
        assert client.get("/state/device-0001").status_code == 404


def test_its_document_describes_both_ports(gateway: Gateway, ports: tuple[Served, Served]) -> None:
    _, admin = ports
    document = httpx.get(f"{admin.url}/openapi.json").json()
    alone = gateway.ask("GET", "/openapi.json").json()
    assert document["paths"].keys() == {*alone["paths"], "/metrics"}


def test_a_port_that_is_taken_is_named_in_a_sentence() -> None:
    (taken,) = listen("127.0.0.1", 0, "HEADRACE_ADMIN_PORT")
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(CannotListenError, match=f"HEADRACE_ADMIN_PORT={port}: .* in use"):
        listen("127.0.0.1", port, "HEADRACE_ADMIN_PORT")
    taken.close()
