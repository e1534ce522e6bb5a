"""The desk's API as an OpenAPI document, with what an operator has to be for each request."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from desk.api.answers import json
from desk.api.master import KINDS
from desk.letters.selection import Selection
from desk.web.rights import needed
from gateway.http.problems import MEDIA_TYPE, PROBLEM

PATH = "/api/openapi.json"
_ROOT = "/api/"
_FILTERED = ("/api/letters", "/api/groups")
_OF_BYTES = {"/api/try/{endpoint}/{entity_id}": ("*/*",), "/api/master/{table}/import": KINDS}
_ROW = "/api/master/{table}/{key}"
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_REFUSED = {
    "description": "A problem: `code` and `detail` say what was wrong and what to do.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "An operator's: of `./headrace credentials add --operator`, or a JWT.",
}


def describe(app: FastAPI) -> None:
    """Describes the routes that the application has by now, but for its pages."""

    @cache
    def openapi() -> dict[str, Any]:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        paths = {path: its for path, its in document["paths"].items() if path.startswith(_ROOT)}
        for path, operations in paths.items():
            for method, operation in operations.items():
                _describe(method.upper(), path, operation)
        known, said = document["components"]["schemas"], orjson.dumps(paths).decode()
        schemas = {name: its for name, its in known.items() if f'/{name}"' in said}
        return {
            **document,
            "paths": paths,
            "components": {
                "schemas": {**schemas, "Problem": PROBLEM},
                "securitySchemes": {"token": _TOKEN},
            },
            "security": [{}, {"token": []}],
        }

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route(PATH, lambda _request: json(app.openapi()), include_in_schema=False)


def _describe(method: str, path: str, operation: dict[str, Any]) -> None:
    may = needed(method, path)
    first, _, rest = str(operation.pop("description", "")).partition("\n")
    operation["summary"] = first.removesuffix(".")
    operation["description"] = f"{rest.strip()} For who may {may}.".strip()
    operation["responses"] = {"2XX": {"description": "Done, or begun."}, "default": _REFUSED}
    if path in _FILTERED:
        filters = {**dict.fromkeys(Selection._fields, _TEXT), "ids": _TEXTS}
        _add(operation, "query", filters)
    if kinds := _OF_BYTES.get(path):
        operation["requestBody"] = {"content": {kind: {} for kind in kinds}}
    if path == _ROW and may != "look":
        _add(operation, "header", {"If-Match": _TEXT, "If-None-Match": {"const": "*"}})


def _add(operation: dict[str, Any], place: str, schemas: Mapping[str, object]) -> None:
    more = [{"name": name, "in": place, "schema": its} for name, its in schemas.items()]
    operation["parameters"] = [*operation.get("parameters", []), *more]
