"""What the OpenAPI document says of states as they were, of their history and their causes."""

from typing import Any

_TIME = {"type": "string", "format": "date-time"}
_TIME_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_WHOSE = {"entity": {"type": "string"}, "id": {"type": "string"}}
_PAST_STATE = {
    "type": "object",
    "description": "With `version` or `at`: the state as it was published.",
    "required": ["entity", "id", "version", "event_time", "updated_at", "until", "state"],
    "properties": {
        **_WHOSE,
        "version": {"type": "integer"},
        "event_time": _TIME_OR_NULL,
        "updated_at": _TIME,
        "until": {**_TIME_OR_NULL, "description": "When the next version came; null: none has."},
        "late": {"type": "integer"},
        "clock_off": {"type": "integer"},
        "state": {"type": "object"},
    },
}
_HISTORY = {
    "type": "object",
    "required": ["entity", "id", "versions", "next"],
    "properties": {
        **_WHOSE,
        "versions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["version", "updated_at", "event_time"],
                "properties": {
                    "version": {"type": "integer"},
                    "updated_at": _TIME,
                    "event_time": _TIME_OR_NULL,
                    "changed": {
                        "type": "object",
                        "description": "Fields with another value than in the version before.",
                    },
                    "removed": {"type": "array", "items": {"type": "string"}},
                    "deleted": {"const": True},
                    "forgotten_at": {
                        **_TIME,
                        "description": "When the deleted entity was forgotten: what is newer "
                        "begins again with version 1.",
                    },
                },
            },
        },
        "next": {"type": ["string", "null"], "description": "For the next page; null: none."},
    },
}
_EVENT = {
    "type": ["object", "null"],
    "required": ["id", "type", "time", "arrived_at", "position"],
    "properties": {
        "id": {"type": "string"},
        "type": {"type": "string"},
        "time": _TIME,
        "arrived_at": _TIME,
        "position": {"type": "string"},
        "payload": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "origin": {"type": "string"}},
        },
        "derived_from": {"type": "string", "description": "The place of the causing event."},
        "revision": {"type": "integer"},
        "saw": {"type": "object", "description": "What its enrichment looked up."},
    },
}
_CAUSES = {
    "type": "object",
    "required": ["entity", "id", "version", "fields"],
    "properties": {
        **_WHOSE,
        "version": {"type": "integer"},
        "fields": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["value", "event"],
                "properties": {
                    "value": {},
                    "event": _EVENT,
                    "because": {"type": "string", "description": "Why no event is named."},
                },
            },
        },
    },
}
SCHEMAS: dict[str, Any] = {"PastState": _PAST_STATE, "History": _HISTORY, "Causes": _CAUSES}


def content(*names: str) -> dict[str, Any]:
    schemas = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"application/json": {"schema": schema}}
