"""Takes OTLP over HTTP, as a collector does."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class CollectorServer:
    """Hands each request to `take`: its path, content type and body. `status`: what it answers."""

    def __init__(self, take: Callable[[str, str, bytes], None], status: int = 200) -> None:
        self.status = status
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                take(self.path, self.headers["content-type"], body)
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class JsonCollector(CollectorServer):
    """Keeps the spans that come as JSON, each with the name of its service."""

    def __init__(self) -> None:
        super().__init__(self._take)
        self.spans: list[dict[str, Any]] = []

    def _take(self, path: str, content_type: str, body: bytes) -> None:
        if self.status != 200 or content_type != "application/json":
            return
        assert path == "/v1/traces"
        for resource in json.loads(body)["resourceSpans"]:
            told = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
            for scope in resource["scopeSpans"]:
                service = told["service.name"]["stringValue"]
                self.spans += ({**span, "service": service} for span in scope["spans"])
