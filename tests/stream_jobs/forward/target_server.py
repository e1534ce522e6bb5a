"""A hook's server that a test runs: it answers as it is told, and notes all that it is sent."""

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class Reply(NamedTuple):
    status: int | None = 200  # None: the connection is reset
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"ok"
    after_s: float = 0.0
    slow_s: float = 0.0  # between the bytes of the body


Answers = Callable[[Received], Reply]
# what a hook's server may do that it should not, where the hook waits 3 s
WRONG: tuple[Reply, ...] = (
    Reply(None),
    Reply(500),
    Reply(503, (("retry-after", "1"),)),
    Reply(302, (("location", "/elsewhere"),)),
    Reply(400),
    Reply(422),
    Reply(200, body=b"." * 60, slow_s=0.1),  # longer than the hook waits
    Reply(429, (("retry-after", "1"),)),
    Reply(204, after_s=1.3, body=b""),  # longer than a batch waits
)
# a day of three is some seconds
QUICK = {"timeout_s": 3.0, "retries": {"first_pause_s": 0.2, "factor": 1.5, "pause_max_s": 2.0}}


class TargetServer:
    def __init__(
        self, answers: Answers = lambda _: Reply(), tls: ssl.SSLContext | None = None
    ) -> None:
        self.answers = answers
        # with what was answered
        self.log: list[tuple[Received, Reply]] = []
        self.connections = self.open = 0
        self._lock = threading.Lock()
        target = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with target._lock:
                    target.connections += 1
                    target.open += 1

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                if len(body) < length:  # whoever sent it was killed
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                received = Received(self.path, headers, body, time.monotonic())
                with target._lock:
                    reply = target.answers(received)
                    target.log.append((received, reply))
                time.sleep(reply.after_s)
                if reply.status is None:
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.close_connection = True
                    self.connection.close()
                    return
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers:
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(reply.body)))
                    self.end_headers()
                    for byte in reply.body if reply.slow_s else ():
                        self.wfile.write(bytes([byte]))
                        time.sleep(reply.slow_s)
                    if not reply.slow_s:
                        self.wfile.write(reply.body)
                except OSError:  # whoever asked has not waited
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

            def finish(self) -> None:
                with suppress(OSError, ValueError):
                    super().finish()
                with target._lock:
                    target.open -= 1

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def received(self) -> list[tuple[Received, Reply]]:
        with self._lock:
            return list(self.log)

    def __enter__(self) -> "TargetServer":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
