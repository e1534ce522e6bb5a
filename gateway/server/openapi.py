"""Puts the routes that FastAPI's router does not know into the OpenAPI document."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from gateway.effects import openapi as effects
from gateway.event_streams.openapi import operation
from gateway.event_streams.streams import PATH
from gateway.history import openapi as history
from gateway.http.problems import MEDIA_TYPE, PROBLEM
from gateway.ingest.split_batch import FRAMES, NDJSON
from gateway.lists import openapi as lists
from gateway.whereabouts import openapi as whereabouts
from shared.flow_table import Flow
from shared.ids import ENTITY_ID
from shared.model import Endpoint
from shared.published.schemas.shapes import of_payload
from shared.settings import GatewaySettings
from shared.topic_names import dead_letter_topic

FRAMES_FORMAT = "frames"  # no format of others: the description of the route says what it is
_NOT_EMPTY = {"type": "string", "minLength": 1}
_NOT_BLANK = {**_NOT_EMPTY, "pattern": r"[^ \t\n\r\v\f]"}  # a batch has one line at least
_IDEMPOTENCY_KEY = {"type": "string", "pattern": "^[!-~]{1,255}$"}
_PLACE = {
    "topic": {"type": "string"},
    "partition": {"type": "integer"},
    "offset": {"type": "integer"},
    "spooled": {
        "const": True,
        "description": "Kafka is away: the payload is on the gateway's disk, and has no partition "
        "and offset yet.",
    },
}
_RECEIPT = {
    "type": "object",
    "required": ["id", "topic", "received_at"],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        **_PLACE,
        "received_at": {"type": "string", "format": "date-time"},
    },
}
_RECEIPT_SCHEMA = {"$ref": "#/components/schemas/Receipt"}
_RECEIPTS = {
    "type": "object",
    "required": ["accepted", "refused", "received_at", "receipts"],
    "properties": {
        "accepted": {"type": "integer"},
        "refused": {"type": "integer"},
        "received_at": {"type": "string", "format": "date-time"},
        "receipts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["line", "status"],
                "properties": {
                    "line": {
                        "type": "integer",
                        "description": "number of the line, blank ones included, or of the frame; "
                        "from 0 on",
                    },
                    "status": {"type": "integer"},
                    "id": {"type": "string", "format": "uuid"},
                    **_PLACE,
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                    "outcome": {"enum": ["definite", "unknown"]},
                    "retry_after_s": {"type": "integer"},
                },
            },
        },
    },
}
_STATE = {
    "type": "object",
    "required": [
        *("entity", "id", "version", "event_time", "updated_at", "age_ms", "view"),
        *("pipeline_lag_s", "stale", "state"),
    ],
    "properties": {
        "entity": {"type": "string"},
        "id": {"type": "string"},
        "version": {"type": "integer"},
        "event_time": {"type": ["string", "null"], "format": "date-time"},
        "updated_at": {"type": "string", "format": "date-time"},
        "age_ms": {"type": "integer", "description": "Since this version was published."},
        "view": {
            "type": "object",
            "description": "How far the gateway has read what the jobs publish.",
            "properties": {
                "caught_up_at": {"type": "string", "format": "date-time"},
                "lag_ms": {"type": "integer"},
            },
        },
        "pipeline_lag_s": {
            "type": ["number", "null"],
            "minimum": 0,
            "description": "What was accepted longer ago is in this state: an upper bound, of the "
            "gateway's spool, all jobs on the way (by their last words, each two seconds) and the "
            "view; of a fresh state, of what is before fold. null: of one of the jobs nothing is "
            "known yet. What waits for master data is not in it.",
        },
        "stale": {
            "type": "boolean",
            "description": "A job on the way does not run, is silent, or the lag is above "
            "HEADRACE_STALE_AFTER_S.",
        },
        "stale_because": {"type": "string", "description": "Only where it is: who is behind."},
        **{name: {"type": "integer"} for name in ("late", "clock_off")},
        "fresh": {"type": "boolean", "description": "Only where it was asked for."},
        "events_ahead": {"type": "integer"},
        "not_fresh": {"type": "string", "description": "Why a fresh state could not be had."},
        "state": {"type": "object"},
    },
}
# which of them a gateway takes is a setting of it
_WAYS_TO_ASK = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `./headrace credentials add`, or a JWT.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Headrace-HMAC key=…, ts=…, nonce=…, body=…, signature=…`",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A device's certificate: CN is its id, O its tenant.",
    },
}
_RECEIPTS_ANSWER = {
    "description": "Of a batch: what became of each payload. At least one was written.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Receipts"}}},
}
_REFUSALS = {
    "400": "The entity id, a header or the body is not acceptable.",
    "401": "The gateway wants to know who is asking, and this is nobody that it knows.",
    "403": "This caller may not write, or not this id; or a foreign page asks.",
    "408": "The body came too slowly. Nothing was written.",
    "413": "The body is larger than the gateway or Kafka takes.",
    "429": "More payloads than may be sent. Nothing was written; Retry-After says when to go on.",
    "503": "Kafka is away and there is no room in a spool, or the gateway is full. `outcome` "
    "says whether it may have been written.",
}


def describe(
    app: FastAPI, routes: Sequence[BaseRoute], flow: Flow, settings: GatewaySettings
) -> None:
    """`routes` may be more than the app's own: the port with the document need not be theirs."""

    @cache
    def openapi() -> dict[str, Any]:
        schema = get_openapi(title=app.title, version=app.version, routes=routes)
        schemas: dict[str, Any] = {}
        schema["components"] = {"schemas": schemas}  # FastAPI's own are of its errors
        for path in schema["paths"].values():
            _describe_refusals(path["get"]["responses"])
        schema["components"]["securitySchemes"] = _WAYS_TO_ASK
        schema["security"] = [{}, *({name: []} for name in _WAYS_TO_ASK)]
        schemas.update(Receipt=_RECEIPT, Receipts=_RECEIPTS, Problem=PROBLEM, State=_STATE)
        schemas |= {**effects.SCHEMAS, **history.SCHEMAS, **lists.SCHEMAS, **whereabouts.SCHEMAS}
        for endpoint in flow.open_endpoints:
            schemas |= _payload_schemas(endpoint)
            schema["paths"][path_of(endpoint)] = {"post": _operation(endpoint, settings)}
            schema["paths"][f"/v1/{endpoint.name}"] = {"post": _frames(endpoint, settings)}
        schema["paths"].setdefault(PATH, {})["get"] = operation(flow)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe_refusals(responses: dict[str, Any]) -> None:
    """Describes the refusals of a route of FastAPI as the problems that they are here."""
    responses["400"] = _refusal("No request that can be told from others: see `detail`.")
    for status, answer in responses.items():
        if status >= "400" and answer.get("content", {}).keys() <= {"application/json"}:
            responses[status] = _refusal(answer["description"])


def path_of(endpoint: Endpoint) -> str:
    return f"/v1/{endpoint.name}/{{entity_id}}"


def _payload_name(endpoint: Endpoint) -> str:
    return f"{endpoint.name}.payload"


def _payload_schemas(endpoint: Endpoint) -> dict[str, Any]:
    # each endpoint's definitions under its own name: two may have one of the same name
    prefix = f"{endpoint.name}."
    payload = of_payload(endpoint, f"#/components/schemas/{prefix}")
    definitions = payload.pop("$defs", {})
    return {
        _payload_name(endpoint): payload,
        **{prefix + name: schema for name, schema in definitions.items()},
    }


def _operation(endpoint: Endpoint, settings: GatewaySettings) -> dict[str, Any]:
    payload = {
        "schema": {"$ref": f"#/components/schemas/{_payload_name(endpoint)}"},
        **({"example": endpoint.example.payload} if endpoint.example else {}),
    }
    return {
        "summary": f"Hand in a payload for {endpoint.name}",
        "description": "Any body of any media type but frames, byte for byte. A 202 says that all "
        "in-sync replicas hold it at the offset returned, or, where it says `spooled`, that it "
        "lies on the gateway's own disk until Kafka is back. At most "
        f"{settings.body_bytes_max} bytes. The body is looked at "
        f"later: what is no {_payload_name(endpoint)} is parked in {dead_letter_topic('enrich')}. "
        f"As {NDJSON.decode()}: a batch, one payload a line, answered with 207.",
        "operationId": f"ingest_{endpoint.name}",
        "parameters": [
            {
                **_parameter(
                    "entity_id", "path", {"type": "string", "pattern": f"^{ENTITY_ID.pattern}$"}
                ),
                **({"example": endpoint.example.entity_id} if endpoint.example else {}),
            },
            _parameter("Idempotency-Key", "header", _IDEMPOTENCY_KEY),
            _parameter("traceparent", "header", {"type": "string"}),
            *effects.parameters(),
        ],
        "requestBody": {
            "required": True,
            "content": {
                NDJSON.decode(): {"schema": _NOT_BLANK},
                "application/octet-stream": {"schema": {**_NOT_EMPTY, "format": "binary"}},
                "text/plain": {"schema": _NOT_EMPTY},
                # the schema is that of the decoded payload
                **{name: payload for form in endpoint.formats for name in form.media_types},
            },
        },
        "responses": {
            "200": effects.REACHED,
            "202": {
                "description": "Written.",
                "headers": {"Location": {"schema": {"type": "string"}}},
                "content": {"application/json": {"schema": effects.receipt(_RECEIPT_SCHEMA)}},
            },
            "207": _RECEIPTS_ANSWER,
            **{status: _refusal(description) for status, description in _REFUSALS.items()},
            "415": _refusal("Frames, or NDJSON that is compressed as a whole."),
        },
    }


def _frames(endpoint: Endpoint, settings: GatewaySettings) -> dict[str, Any]:
    media_type = FRAMES.decode()
    return {
        "summary": f"Hand in payloads of several entities for {endpoint.name}",
        "description": "One frame after the other: `<entity id> <length>[ <idempotency key>]`, a "
        "newline, so many bytes, a newline. A frame that cannot be cut out ends the batch; what "
        f"came before is written. At most {settings.batch_payloads_max} frames and "
        f"{settings.batch_bytes_max} bytes.",
        "operationId": f"ingest_{endpoint.name}_frames",
        "requestBody": {
            "required": True,
            "content": {media_type: {"schema": {**_NOT_EMPTY, "format": FRAMES_FORMAT}}},
        },
        "responses": {
            "207": _RECEIPTS_ANSWER,
            **{status: _refusal(description) for status, description in _REFUSALS.items()},
            "415": _refusal("The batch is not in this form, or it is compressed as a whole."),
        },
    }


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _refusal(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
