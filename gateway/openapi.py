"""Puts the ingest route, which FastAPI's router does not know, into the OpenAPI document."""

from typing import Any

from fastapi import FastAPI

from gateway.problems import MEDIA_TYPE
from shared.ids import ENTITY_ID
from shared.settings import GatewaySettings
from shared.topology import Flow

PATH = "/v1/{endpoint}/{entity_id}"

_RECEIPT = {
    "type": "object",
    "required": ["id", "topic", "partition", "offset", "received_at"],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "topic": {"type": "string"},
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "received_at": {"type": "string", "format": "date-time"},
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string"},
        "outcome": {"enum": ["definite", "unknown"]},
    },
}
_REFUSALS = {
    "400": "The entity id, a header or the body is not acceptable.",
    "404": "There is no such endpoint.",
    "413": "The body is larger than the gateway or Kafka takes.",
    "503": "Kafka is away or the gateway is full. `outcome` says whether it may have been written.",
}


def describe(app: FastAPI, flow: Flow, settings: GatewaySettings) -> None:
    from_routes = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None or PATH not in app.openapi_schema["paths"]:
            schema = from_routes()
            schema["paths"][PATH] = {"post": _operation(flow, settings)}
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas |= {"Receipt": _RECEIPT, "Problem": _PROBLEM}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _operation(flow: Flow, settings: GatewaySettings) -> dict[str, Any]:
    return {
        "summary": "Hand in a payload",
        "description": "Any body, byte for byte. A 202 says that all in-sync replicas hold it at "
        f"the offset returned. At most {settings.body_bytes_max} bytes.",
        "operationId": "ingest",
        "parameters": [
            _parameter("endpoint", "path", {"enum": [e.name for e in flow.endpoints]}),
            _parameter(
                "entity_id", "path", {"type": "string", "pattern": f"^{ENTITY_ID.pattern}$"}
            ),
            _parameter(
                "Idempotency-Key", "header", {"type": "string", "minLength": 1, "maxLength": 255}
            ),
            _parameter("traceparent", "header", {"type": "string"}),
        ],
        "requestBody": {
            "required": True,
            "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "202": {
                "description": "Written.",
                "headers": {"Location": {"schema": {"type": "string"}}},
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Receipt"}}
                },
            },
            **{status: _refusal(description) for status, description in _REFUSALS.items()},
        },
    }


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _refusal(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
