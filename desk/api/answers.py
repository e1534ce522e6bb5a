"""How a document is answered."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


def json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = orjson.dumps(document, default=str)
    return Response(body, status, headers, media_type="application/json")
