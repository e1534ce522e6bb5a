"""A gateway in the test's own process, on a log that a test can make fail."""

import asyncio
import socket
from typing import Any, NamedTuple

import httpx
from fastapi import FastAPI

from gateway.health import Health
from gateway.outcomes import Receipt
from shared.envelope import Header
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
        self.failure: BaseException | None = None
        self.healthy = True
        self.pause_s = 0.0

    async def append(self, topic: str, key: bytes, value: bytes, headers: list[Header]) -> Receipt:
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        if self.failure is not None:
            raise self.failure
        self.records.append(Record(topic, key, value, dict(headers)))
        return Receipt(topic, 0, len(self.records) - 1)

    def is_healthy(self) -> bool:
        return self.healthy


class Gateway(NamedTuple):
    app: FastAPI
    log: FakeLog
    health: Health
    settings: GatewaySettings

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.ask_all([(method, path, options)])[0]

    def ask_all(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """All at once."""

        async def run() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await asyncio.gather(
                    *(client.request(method, path, **opts) for method, path, opts in requests)
                )

        return asyncio.run(run())

    def post(self, path: str = "/v1/telemetry/device-0001", **options: Any) -> httpx.Response:
        return self.ask("POST", path, **{"content": b'{"value": 21.5}', **options})


class Served(NamedTuple):
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
