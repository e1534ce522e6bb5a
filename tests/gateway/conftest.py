"""A gateway in the test's own process, on a log that a test can make fail, and a real one."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.settings import GatewaySettings
from tests.gateway.support import Gateway, Served, gateway_of, serving


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(
        state_dir=tmp_path,
        body_bytes_max=1000,
        batch_bytes_max=2000,
        batch_payloads_max=100,
        in_flight_payloads_max=250,
        in_flight_bytes_max=3000,
        body_pause_max_s=0.5,
        body_deadline_s=1.5,
        head_deadline_s=0.5,
        keep_alive_s=0.5,
        hosts="gateway,a,fake",  # what these tests write in the requests that they make by hand
    )


@pytest.fixture
def gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    with gateway_of(settings) as gateway:
        yield gateway


@pytest.fixture
def store(settings: GatewaySettings) -> Iterator[ViewStore]:
    store = ViewStore(view_path(settings.state_dir))
    yield store
    store.close()


@pytest.fixture
def put(store: ViewStore) -> Callable[[Row], None]:
    def put(row: Row) -> None:
        changes = Changes()
        changes.put(row)
        store.apply(changes)

    return put


@pytest.fixture
def put_soon(settings: GatewaySettings) -> Callable[[Row], None]:
    """From another thread, while the test waits for an answer."""

    def put(row: Row) -> None:
        store = ViewStore(view_path(settings.state_dir))
        changes = Changes()
        changes.put(row)
        store.apply(changes)
        store.close()

    return lambda row: threading.Timer(0.3, put, [row]).start()


@pytest.fixture
def served(gateway: Gateway) -> Iterator[Served]:
    """The gateway behind real uvicorn, configured as in production, on a fake log."""
    with serving(gateway, gateway.settings) as served:
        yield served


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("gateway-broker")
    nowhere = {"HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace"}
    with Stack(folder, random_ports=True, services=("kafka",), settings=nowhere) as stack:
        admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
        made = admin.create_topics([NewTopic(t.name, 4, 1, config=t.config) for t in FLOW.topics()])
        for future in made.values():
            future.result(30)
        yield stack
