"""A gateway in the test's own process, on a log that a test can make fail."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import httpx
import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from gateway.ingest.accept import Ingest
from gateway.kafka_writer import outcome
from gateway.kafka_writer.outcome import OnWritten, Outcome, Receipt
from gateway.monitor.routes import Health
from gateway.node.node import Node
from gateway.server.composition import Parts, put_together
from gateway.server.server import server_config
from gateway.state_view.reader import StateView
from gateway.streams.streams import Streams
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.settings import GatewaySettings


class Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes
    headers: dict[str, bytes]


class FakeLog:
    """Keeps what is appended, or does what `failure` says."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failure: Outcome | Exception | None = None
        self.healthy = True
        self.pause_s = 0.0
        self.asked = 0

    def put(self, topic: str, records: Sequence[outcome.Record], on_written: OnWritten) -> None:
        self.asked += len(records)
        if isinstance(self.failure, Exception) and not isinstance(self.failure, Outcome):
            raise self.failure
        asyncio.get_running_loop().call_later(self.pause_s, self._put, topic, records, on_written)

    def _put(self, topic: str, records: Sequence[outcome.Record], on_written: OnWritten) -> None:
        if self.failure is not None:
            on_written([self.failure] * len(records))  # type: ignore[list-item]
            return
        begin = len(self.records)
        self.records += [Record(topic, r.key, r.value, dict(r.headers)) for r in records]
        on_written([Receipt(topic, 0, offset) for offset in range(begin, len(self.records))])

    def is_healthy(self) -> bool:
        return self.healthy


class Gateway(NamedTuple):
    app: FastAPI
    ingest: Ingest
    streams: Sequence[Streams[Any]]
    log: FakeLog
    health: Health
    settings: GatewaySettings

    def rebuilt(self, settings: GatewaySettings | None = None, **parts: Any) -> "Gateway":
        """Of other settings or parts, on the same log."""
        return built(settings or self.settings, self.log, self.health, **parts)

    def config(self, settings: GatewaySettings, node: Node | None = None) -> uvicorn.Config:
        return server_config(self.app, settings, node, self.ingest, self.streams)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.ask_all([(method, path, options)])[0]

    def ask_all(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """All at once."""

        async def run() -> list[httpx.Response]:
            # a client of these tests may be slow
            patient = self.settings.model_copy(update={"head_deadline_s": 30, "keep_alive_s": 30})
            config = self.config(patient)
            config.load()
            state = ServerState()
            server = await asyncio.get_running_loop().create_server(
                lambda: config.http_protocol_class(config=config, server_state=state, app_state={}),
                "127.0.0.1",
                0,
            )
            host, port = server.sockets[0].getsockname()
            client = httpx.AsyncClient(
                base_url=f"http://{host}:{port}",
                limits=httpx.Limits(max_connections=None),
                timeout=30 * BUSY,  # hundreds at once
                verify=False,
            )
            try:
                async with client:
                    return await asyncio.gather(
                        *(client.request(method, path, **opts) for method, path, opts in requests)
                    )
            finally:
                server.close()
                while state.connections:
                    for connection in list(state.connections):
                        connection.transport.abort()
                    await asyncio.sleep(0)
                await server.wait_closed()

        return asyncio.run(run())

    def post(self, path: str = "/v1/telemetry/device-0001", **options: Any) -> httpx.Response:
        return self.ask("POST", path, **{"content": b'{"value": 21.5}', **options})


BUSY = 4  # a machine with much else to do is slow, not wrong


class Served(NamedTuple):
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def post(self, entity_id: str, headers: dict[str, str]) -> int:
        path = f"{self.url}/v1/telemetry/{entity_id}"
        return httpx.post(path, content=b"{}", headers=headers).status_code

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def built(
    settings: GatewaySettings,
    log: FakeLog | None = None,
    health: Health | None = None,
    node: Node | None = None,
    flow: Flow = FLOW,
    **parts: Any,
) -> Gateway:
    """Put together as in production, of `Parts` that no test needs a server for."""
    log = log or FakeLog()
    health = health or Health(settings, flow, log, StateView(settings.state_dir))
    made = Parts(settings, flow, node or Node(), log, health.view, health, **parts)
    return Gateway(*put_together(made), log, health, settings)


@contextmanager
def gateway_of(settings: GatewaySettings, **parts: Any) -> Iterator[Gateway]:
    gateway = built(settings, **parts)
    yield gateway
    with suppress(sqlite3.ProgrammingError):  # a server's thread opened it, and has ended
        gateway.health.view.close()


class _QuickServer(uvicorn.Server):
    """Its own one looks ten times a second whether it is to end, and then rests once more."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(0.01)
        await self.lifespan.shutdown()


@contextmanager
def serving(
    app: FastAPI | Gateway, settings: GatewaySettings, node: Node | None = None, port: int = 0
) -> Iterator[Served]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    is_gateway = isinstance(app, Gateway)
    config = app.config(settings, node) if is_gateway else server_config(app, settings, node)
    server = _QuickServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    deadline = time.monotonic() + 10 * BUSY
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield Served(*listener.getsockname())
    finally:
        server.should_exit = True
        thread.join(10 * BUSY)
        listener.close()


class GatewayProcess:
    """`python -m gateway`, as an operator starts it."""

    def __init__(self, bootstrap: str, state_dir: Path, **settings: object) -> None:
        self.port = free_port()
        self._environment = {
            **os.environ,
            "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
            "HEADRACE_STATE_DIR": str(state_dir),
            "HEADRACE_GATEWAY_PORT": str(self.port),
            "HEADRACE_HOSTS": "gateway",
            "HEADRACE_POSTGRES_URL": "postgresql://headrace@127.0.0.1:1/headrace",
            **{f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=20)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.client.close()

    def start(self, stderr: IO[bytes] | None = None) -> None:
        command = [sys.executable, "-m", "gateway"]
        self.process = subprocess.Popen(command, env=self._environment, stderr=stderr)
        until(lambda: self.status("/livez") == 200, 15)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20 * BUSY)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10 * BUSY)

    def status(self, path: str) -> int | None:
        try:
            return self.client.get(path).status_code
        except httpx.TransportError:
            return None

    def post(self, entity_id: str = "device-0001", body: bytes = b"{}") -> httpx.Response:
        return self.client.post(f"/v1/telemetry/{entity_id}", content=body)

    def view_writers(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def resident_mib(self) -> float:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def until(reached: Callable[[], object], deadline_s: float) -> float:
    """How long it took; `deadline_s` is for a machine that has nothing else to do."""
    begun_s = time.monotonic()
    while not reached():
        took_s = time.monotonic() - begun_s
        assert took_s < deadline_s * BUSY, f"not within {deadline_s} s, {BUSY} times over"
        time.sleep(0.05)
    return time.monotonic() - begun_s


async def eventually(reached: Callable[[], object]) -> None:
    """For what goes on in the same loop."""
    async with asyncio.timeout(60):
        while not reached():
            await asyncio.sleep(0.005)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
