"""What the demo shows alarms by: a webhook that takes them, and a page that lists them.

The page is of another origin than the gateway, and a browser sends no credential with an
EventSource. So this server passes the gateway's event stream on, with the demo's credential.
"""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx

from local_stack.demo.alarm_page import PAGE, POLICY
from local_stack.demo.gateway_client import event_bytes
from shared.forwarding.signature import is_signed, key_of
from shared.timestamps import now_ms

ALARM = "alarm_raised"
HOST = "127.0.0.1"
_BODY_BYTES_MAX = 1024 * 1024
_IDLE_S = 60.0


class AlarmServer:
    """`on_webhook` hears, in a thread of this server, which event has come and when."""

    def __init__(
        self,
        gateway_url: str,
        token: str | None,
        secret: str,
        on_webhook: Callable[[str, int], object],
    ) -> None:
        self.forged = 0
        key = key_of(secret)
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            timeout = _IDLE_S

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", -1))
                if self.path != "/hook" or not 0 <= length <= _BODY_BYTES_MAX:
                    self.close_connection = True
                    self._answer(404)
                    return
                body = self.rfile.read(length)
                came_ms = now_ms()
                headers = {name.lower(): value for name, value in self.headers.items()}
                if is_signed(headers, body, key, came_ms / 1000):
                    on_webhook(headers["webhook-id"], came_ms)
                    self._answer(204)
                else:
                    server.forged += 1
                    self._answer(401)

            def do_GET(self) -> None:
                # else a page under a name of its own that leads here could read what this reads
                if self.headers.get("host") not in server.names:
                    self._answer(403)
                elif self.path == "/":
                    self._answer(200, PAGE.encode(), "text/html; charset=utf-8")
                elif self.path == "/events":
                    self._pass_events_on()
                else:
                    self._answer(404)

            def _pass_events_on(self) -> None:
                self.close_connection = True
                last_id = self.headers.get("last-event-id")
                try:
                    with event_bytes(gateway_url, token, ALARM, last_id) as (status, kind, chunks):
                        self.send_response(status)
                        self.send_header("content-type", kind)
                        self.send_header("cache-control", "no-store")
                        self.send_header("connection", "close")
                        self.end_headers()
                        for chunk in chunks:
                            self.wfile.write(chunk)
                except (httpx.HTTPError, OSError):
                    return  # one of the two is away: the page comes again

            def _answer(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
                self.send_response(status)
                if status != 204:
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(body)))
                    self.send_header("content-security-policy", POLICY)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the demo's own lines say what came."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that goes away is none."""

        self._server = Server((HOST, 0), Handler)
        self._port = self._server.server_address[1]
        self.names = (f"{HOST}:{self._port}", f"localhost:{self._port}")

    @property
    def page_url(self) -> str:
        return f"http://{HOST}:{self._port}/"

    @property
    def hook_url(self) -> str:
        return f"{self.page_url}hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
