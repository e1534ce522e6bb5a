"""A schema registry, played: as much of Confluent's protocol as a reader and a test need."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import fastavro
import orjson

from tests.played_service import PlayedService, Request, Way, played


class PlayedRegistry:
    """Of one user, who has a password."""

    def __init__(self, service: PlayedService) -> None:
        self.service = service
        self.url = service.url
        self.schemas: dict[int, dict[str, Any]] = {}
        self.basic = "Basic " + b64encode(b"reader:secret").decode()
        self.away: Way | None = None
        service.way = self._answer

    def register(self, schema: Any, **more: Any) -> int:
        number = 100_000 + len(self.schemas)
        text = schema if isinstance(schema, str) else orjson.dumps(schema).decode()
        self.schemas[number] = {"schema": text, **more}
        return number

    @property
    def asked(self) -> list[str]:
        return self.service.paths

    def _answer(self, request: Request) -> None:
        if self.away is not None:
            self.away(request)
        elif request.headers.get("authorization") != self.basic:
            request.answers(401, b'{"error_code": 40101, "message": "Unauthorized"}')
        elif not request.path.startswith("/schemas/ids/") or int(request.key) not in self.schemas:
            request.answers(404, b'{"error_code": 40403, "message": "Schema not found"}')
        else:
            request.answers(200, orjson.dumps(self.schemas[int(request.key)]))


def framed(schema_id: int, schema: Any, datum: Any) -> bytes:
    """As a client of a registry writes it."""
    stream = BytesIO(b"\0" + schema_id.to_bytes(4))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return stream.getvalue()


@contextmanager
def played_registry() -> Iterator[PlayedRegistry]:
    with played() as service:
        yield PlayedRegistry(service)
