"""Clients that never finish, a thousand of each kind, beside honest ones: when the gateway is rid
of them, and what the honest ones feel of it.

    PYTHONPATH=. python -m benchmarks.slow_clients [--connections 1000] [--connect-rate 500]
        [--rate 200] [--url http://127.0.0.1:8080]

Without a URL it starts a gateway whose log takes everything at once, as a process of its own.
"""

import argparse
import asyncio
import itertools
import math
import multiprocessing
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple
from urllib.parse import urlsplit

import uvicorn
import uvloop

from gateway.kafka_writer.outcome import OnWritten, Receipt, Record
from gateway.monitor.routes import Health
from gateway.node.node import Node
from gateway.server.composition import Parts, put_together
from gateway.server.server import server_config
from gateway.state_view.reader import StateView
from shared.flow import FLOW
from shared.settings import GatewaySettings

_HEAD = b"POST /v1/telemetry/device-0001 HTTP/1.1\r\nHost: localhost\r\n"
_WHOLE_HEAD = _HEAD + b"Content-Length: 1000\r\n\r\n"
_HONEST = _HEAD + b"Content-Length: 200\r\n\r\n" + b"x" * 200
_HONEST_CONNECTIONS = 32
_HONEST_BEFORE_S = 15


class Shape(NamedTuple):
    """A client that sends `opening`, then `drip` now and then, and never ends by itself."""

    name: str
    opening: bytes
    drip: bytes
    deadline_s: Callable[[GatewaySettings], float]


SHAPES = (
    Shape("says nothing", b"", b"", lambda s: s.head_deadline_s),
    Shape("stops in its head", _HEAD, b"", lambda s: s.head_deadline_s),
    Shape("drips its head", _HEAD + b"X: ", b"x", lambda s: s.head_deadline_s),
    Shape("stops before its body", _WHOLE_HEAD, b"", lambda s: s.body_pause_max_s),
    Shape("drips its body", _WHOLE_HEAD + b"x", b"x", lambda s: s.body_deadline_s),
)


class SlowClient(asyncio.Protocol):
    def __init__(self, shape: Shape, drip_every_s: float) -> None:
        self.shape = shape
        self.lasted_s: float | None = None
        self.answer = b""
        self._drip_every_s = drip_every_s
        self._ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._begun_s = time.monotonic()
        transport.write(self.shape.opening)
        if self.shape.drip:
            self._drip_later()

    def data_received(self, data: bytes) -> None:
        self.answer += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.lasted_s = time.monotonic() - self._begun_s
        self._ended.set_result(None)

    async def ended(self, within_s: float) -> bool:
        await asyncio.wait((self._ended,), timeout=within_s)
        return self._ended.done()

    def _drip_later(self) -> None:
        asyncio.get_running_loop().call_later(self._drip_every_s, self._drip)

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self.shape.drip)
            self._drip_later()


async def attack(
    host: str,
    port: int,
    connections: int,
    drip_every_s: float,
    wait_s: float,
    rate_per_s: float = math.inf,
) -> list[SlowClient]:
    """As many of each shape, until the server has ended them all or `wait_s` are over."""
    loop = asyncio.get_running_loop()
    clients: list[SlowClient] = []
    begun_s = time.monotonic()
    for _, shape in itertools.product(range(connections), SHAPES):
        await asyncio.sleep(begun_s + len(clients) / rate_per_s - time.monotonic())
        _, client = await loop.create_connection(
            lambda shape=shape: SlowClient(shape, drip_every_s), host, port
        )
        clients.append(client)
    await asyncio.gather(*(client.ended(wait_s) for client in clients))
    return clients


class _Honest:
    """Requests at a steady rate, however long each takes; latency counts from when one was due."""

    def __init__(self, host: str, port: int, rate_per_s: float) -> None:
        self.latencies: list[tuple[float, float]] = []
        self.failed = 0
        self._rate_per_s = rate_per_s
        self._address = host, port
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]

    async def run(self, is_over: Callable[[], bool]) -> None:
        self._free = asyncio.Queue()
        for _ in range(_HONEST_CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection(*self._address))
        begun_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                due_s = begun_s + number / self._rate_per_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                if is_over():
                    return
                group.create_task(self._post(due_s))

    async def _post(self, due_s: float) -> None:
        reader, writer = await self._free.get()
        try:
            writer.write(_HONEST)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 202"):
                self.failed += 1
        except (OSError, asyncio.IncompleteReadError):
            self.failed += 1
            reader, writer = await asyncio.open_connection(*self._address)
        self.latencies.append((due_s, time.monotonic() - due_s))
        self._free.put_nowait((reader, writer))


def be_honest(host: str, port: int, rate_per_s: float, pipe: Connection) -> None:
    honest = _Honest(host, port, rate_per_s)
    uvloop.run(honest.run(pipe.poll))
    pipe.send((honest.latencies, honest.failed))


class _QuickLog:
    def __init__(self) -> None:
        self._offset = 0

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        self._offset += len(records)
        places = range(self._offset - len(records), self._offset)
        receipts = [Receipt(topic, 0, offset) for offset in places]
        asyncio.get_running_loop().call_soon(on_written, receipts)

    def is_healthy(self) -> bool:
        return True


def _serve(listener: socket.socket) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = GatewaySettings(state_dir=Path(folder))
        log, view = _QuickLog(), StateView(settings.state_dir)
        node, health = Node(), Health(settings, FLOW, log, view)
        app, ingest, events = put_together(Parts(settings, FLOW, node, log, view, health))
        uvicorn.Server(server_config(app, settings, node, ingest, events)).run([listener])


def main() -> None:
    parser = argparse.ArgumentParser(description="slow clients beside honest ones")
    parser.add_argument("--connections", type=int, default=1000, help="of each shape")
    parser.add_argument("--connect-rate", type=float, default=500, help="slow ones a second")
    parser.add_argument("--rate", type=float, default=200, help="honest requests a second")
    parser.add_argument("--url", help="of a gateway that runs; none starts one on a quick log")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    settings = GatewaySettings()
    spawn = multiprocessing.get_context("spawn")
    server = None
    if options.url:
        url = urlsplit(options.url)
        host, port = url.hostname or "127.0.0.1", url.port or 80
    else:
        listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        host, port = listener.getsockname()
        server = spawn.Process(target=_serve, args=(listener,))
        server.start()
    time.sleep(5)

    pipe, other_end = spawn.Pipe()
    honest = spawn.Process(target=be_honest, args=(host, port, options.rate, other_end))
    honest.start()
    time.sleep(_HONEST_BEFORE_S)
    begun_s = time.monotonic()
    longest_s = max(shape.deadline_s(settings) for shape in SHAPES)
    clients = uvloop.run(
        attack(host, port, options.connections, 3.0, longest_s + 30, options.connect_rate)
    )
    ended_s = time.monotonic()
    pipe.send("over")
    latencies, failed = pipe.recv()
    honest.join()
    if server is not None:
        server.terminate()
        server.join()

    _tell_honest("before", [took for due, took in latencies if due < begun_s])
    _tell_honest("during", [took for due, took in latencies if begun_s <= due < ended_s])
    print(f"honest requests that failed: {failed}")
    for shape in SHAPES:
        _tell_slow(shape, shape.deadline_s(settings), [c for c in clients if c.shape is shape])


def _tell_honest(when: str, latencies_s: list[float]) -> None:
    ms = quantiles((latency * 1000 for latency in latencies_s), n=1000)
    print(f"honest {when}: {len(latencies_s)} requests, p50 {ms[499]:.2f} ms, p99 {ms[989]:.2f} ms")


def _tell_slow(shape: Shape, deadline_s: float, clients: list[SlowClient]) -> None:
    lasted_s = [client.lasted_s for client in clients if client.lasted_s is not None]
    answers = {client.answer[:12].decode() or "no answer" for client in clients}
    last = f"{max(lasted_s) - deadline_s:+.2f} s" if lasted_s else "never"
    print(
        f"{shape.name}: {len(lasted_s)} of {len(clients)} ended, deadline {deadline_s:g} s, "
        f"the last at {last}; {', '.join(sorted(answers))}"
    )


if __name__ == "__main__":
    main()
