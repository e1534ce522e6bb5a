"""A server that speaks HTTP/2 alone, over TLS, and answers when a test lets it."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.exceptions import ProtocolError

BODY_BYTES_MAX = 16_000  # what a frame holds


class _Protocol(asyncio.Protocol):
    def __init__(self, server: "Http2Server") -> None:
        self._server = server
        self._h2 = H2Connection(H2Configuration(client_side=False))
        self._bodies: dict[int, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.connections.append(self)
        self._h2.initiate_connection()
        self._write()

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            match event:
                case RequestReceived():
                    self._server.headers.append(dict(event.headers or ()))
                    self._bodies[event.stream_id] = b""
                case DataReceived():
                    self._bodies[event.stream_id] += event.data or b""
                    length = event.flow_controlled_length or 0
                    self._h2.acknowledge_received_data(length, event.stream_id)
                case StreamEnded():
                    self._server.bodies.append(self._bodies.pop(event.stream_id))
                    self._server.wait(lambda stream=event.stream_id: self._answer(stream))
        self._write()

    def _answer(self, stream: int) -> None:
        if self.transport.is_closing():
            return
        try:
            self._h2.send_headers(stream, [(":status", "200"), ("retry-after", "7")])
            self._h2.send_data(stream, self._server.body, end_stream=True)
        except ProtocolError:  # whoever asked has not waited
            return
        self._write()

    def go_away(self) -> None:
        self._h2.close_connection()
        self._write()
        self.transport.close()

    def _write(self) -> None:
        self.transport.write(self._h2.data_to_send())

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.open -= 1


class Http2Server:
    def __init__(self, tls: ssl.SSLContext) -> None:
        tls.set_alpn_protocols(["h2"])
        self._tls = tls
        self.connections: list[_Protocol] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.bodies: list[bytes] = []
        self.body = b"ok"
        self.open = 0
        self.holds = False
        self._held: list[Callable[[], None]] = []
        self._loop = asyncio.new_event_loop()

    def wait(self, answer: Callable[[], None]) -> None:
        if self.holds:
            self._held.append(answer)
        else:
            answer()

    def let_go(self) -> None:
        """What it holds."""
        self.holds = False
        for answer in self._held:
            self._loop.call_soon_threadsafe(answer)
        self._held.clear()

    def go_away(self) -> None:
        """All connections, as a server ends those that nobody uses."""
        for one in self.connections:
            self._loop.call_soon_threadsafe(one.go_away)

    def _protocol(self) -> _Protocol:
        self.open += 1
        return _Protocol(self)

    def __enter__(self) -> "Http2Server":
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        begins = self._loop.create_server(
            self._protocol, "127.0.0.1", 0, ssl=self._tls, ssl_shutdown_timeout=0.1
        )
        self._server = asyncio.run_coroutine_threadsafe(begins, self._loop).result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for one in self.connections:
            one.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0.01)  # so that the aborted ones are gone
