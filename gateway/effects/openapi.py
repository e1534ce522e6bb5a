"""What the OpenAPI document says of POSTs that wait."""

from typing import Any

from gateway.effects.answer import SPOOLED
from gateway.effects.wait_request import LEVELS, RULE, TIMEOUT_S

_STAGE = {
    "type": "object",
    "required": ["by", "reason", "detail"],
    "properties": {name: {"type": "string"} for name in ("by", "reason", "detail")},
}
EFFECT = {
    "type": "object",
    "description": "The receipt, and how far the payload has come.",
    "required": ["id", "topic", "received_at", "reached"],
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "topic": {"type": "string"},
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "spooled": {"const": True},
        "received_at": {"type": "string", "format": "date-time"},
        "reached": {"enum": [SPOOLED, *LEVELS]},
        "events": {
            "type": "array",
            "description": "What it has become, from `enriched` on.",
            "items": {
                "type": "object",
                "required": ["id", "type"],
                "properties": {
                    "id": {"type": "string"},
                    "type": {"type": "string"},
                    "entity_id": {"type": "string"},
                },
            },
        },
        "states": {
            "type": "array",
            "description": "From `folded` on: GET /state has these versions now, on any gateway "
            "with If-Version-At-Least.",
            "items": {
                "type": "object",
                "required": ["entity", "id", "version"],
                "properties": {
                    "entity": {"type": "string"},
                    "id": {"type": "string"},
                    "version": {"type": "integer"},
                    "deleted": {"const": True},
                },
            },
        },
        "waits": {
            "type": "object",
            "description": "It waits, for master data or a service.",
            "required": ["reason", "detail"],
            "properties": {"reason": {"type": "string"}, "detail": {"type": "string"}},
        },
        "parked": {**_STAGE, "description": "It goes no further: it is a dead letter of `by`."},
        "dropped": {**_STAGE, "description": "Its enrichment has dropped it on purpose."},
        "why": {"type": "string", "description": "Why it has not reached what was asked for."},
    },
}
SCHEMAS = {"Effect": EFFECT}
_SCHEMA = {"$ref": "#/components/schemas/Effect"}
REACHED = {
    "description": "Written, and it has reached what `wait` names.",
    "headers": {
        "Location": {"schema": {"type": "string"}},
        "Preference-Applied": {"schema": {"type": "string"}},
    },
    "content": {"application/json": {"schema": _SCHEMA}},
}


def receipt(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the receipt of a POST that may have waited."""
    return {"anyOf": [schema, _SCHEMA]}


def parameters() -> list[dict[str, Any]]:
    time = {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,3})?(ms|s)$"}
    return [
        _parameter(
            "wait",
            "query",
            {"enum": [*LEVELS]},
            "How far the payload is to have come before the answer comes. Each level has those "
            "before it. No batch waits.",
        ),
        _parameter(
            "timeout", "query", time, f"The longest wait: {RULE}; without it {TIMEOUT_S:g}s."
        ),
        _parameter(
            "Prefer",
            "header",
            {"type": "string"},
            "`wait=N`: up to N seconds, for `folded` where `wait` says nothing. `respond-async`: "
            "not at all (RFC 7240).",
        ),
    ]


def _parameter(name: str, place: str, schema: dict[str, Any], why: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "schema": schema, "description": why}
