"""A service over HTTP, played on loopback: good, slow, lying or dead."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson

# what it does with a request
Way = Callable[["Request"], None]


class PlayedService(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, way: Way, port: int) -> None:
        super().__init__(("127.0.0.1", port), Request)
        self.way = way
        self.paths: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.at_once = self.at_once_most = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A caller that has hung up is no finding."""


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: else the second waits for the first one's receipt
    server: PlayedService

    @property
    def key(self) -> str:
        return self.path.rpartition("/")[2]

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.paths.append(self.path)
            self.server.heads.append({name.lower(): value for name, value in self.headers.items()})
            self.server.at_once += 1
            self.server.at_once_most = max(self.server.at_once, self.server.at_once_most)
        try:
            self.server.way(self)
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def answers(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def good(request: Request) -> None:
    if request.key.startswith("stranger"):
        request.answers(404, b"nobody")
    else:
        request.answers(200, orjson.dumps({"holder": f"holder of {request.key}"}))


def answering(status: int, body: bytes = b"") -> Way:
    return lambda request: request.answers(status, body)


def busy(request: Request) -> None:
    time.sleep(0.02)
    good(request)


def slow(request: Request) -> None:
    time.sleep(1.2)
    good(request)


def dripping(request: Request) -> None:
    """A byte now and then: each comes in time, and the whole does not."""
    request.send_response(200)
    request.send_header("content-length", "20")
    request.end_headers()
    for _ in range(20):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(0.05)


def silent(request: Request) -> None:
    """Longer than anybody waits."""
    time.sleep(5)
    request.close_connection = True


def hangs_up(request: Request) -> None:
    request.close_connection = True


@contextmanager
def played(way: Way = good, port: int = 0) -> Iterator[PlayedService]:
    service = PlayedService(way, port)
    thread = threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def nobody() -> str:
    """A URL at which nobody listens."""
    return f"http://127.0.0.1:{free_port()}"
