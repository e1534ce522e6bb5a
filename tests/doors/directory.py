"""The directory, played: it knows all badges but the strangers', and can be away in each way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle

import orjson

WAYS_TO_BE_AWAY = ("answers 503", "hangs up")


class PlayedDirectory(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.is_away = False
        self.asked = 0
        self.paths: list[str] = []
        self.ways = cycle(WAYS_TO_BE_AWAY)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A caller that was killed is no finding."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PlayedDirectory

    def do_GET(self) -> None:
        self.server.asked += 1
        self.server.paths.append(self.path)
        badge = self.path.rpartition("/")[2]
        if self.server.is_away:
            if next(self.server.ways) == "hangs up":
                self.close_connection = True
                return
            self._answer(503, b"")
        elif badge.startswith("stranger"):
            self._answer(404, b"")
        else:
            self._answer(200, orjson.dumps({"holder": f"holder of {badge}"}))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def played_directory() -> Iterator[PlayedDirectory]:
    directory = PlayedDirectory()
    thread = threading.Thread(target=directory.serve_forever, daemon=True)
    thread.start()
    try:
        yield directory
    finally:
        directory.shutdown()
        directory.server_close()
        thread.join()
