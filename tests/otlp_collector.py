"""Takes OTLP over HTTP, as JSON, and keeps the spans."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonCollector:
    """`status`: what it answers."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.spans: list[dict[str, Any]] = []  # each with the name of its service
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-type"] == "application/json" and collector.status == 200:
                    assert self.path == "/v1/traces"
                    collector.keep(json.loads(body))
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def keep(self, request: dict[str, Any]) -> None:
        for resource in request["resourceSpans"]:
            told = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
            for scope in resource["scopeSpans"]:
                service = told["service.name"]["stringValue"]
                self.spans += ({**span, "service": service} for span in scope["spans"])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
