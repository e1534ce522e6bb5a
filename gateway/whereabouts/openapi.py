"""What the OpenAPI document says of GET /events/{id}."""

from typing import Any

STAGES = (
    *("spooled", "accepted", "waits", "enriched", "folded", "stored", "completed"),
    *("forwarded", "parked", "dropped"),
)
NOW = (
    *("spooled", "accepted", "waits", "under_way", "enriched", "stored", "dropped"),
    *("parked", "redriven", "done", "discarded"),
)
ID: dict[str, Any] = {
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._:@#-]{0,199}$",
    "description": "The `id` of a receipt, or of an event",
}
PLACE = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,200}/[0-9]{1,9}/[0-9]{1,18}$"}
_TIME = {"type": "string", "format": "date-time"}
_STAGE: dict[str, Any] = {
    "type": "object",
    "required": ["stage"],
    "description": "Which of these a stage has hangs on what it is.",
    "properties": {
        "stage": {"enum": [*STAGES]},
        "at": _TIME,
        "place": {"type": "string", "description": "topic/partition/offset"},
        "endpoint": {"type": "string"},
        "entity": {"type": "string"},
        "entity_id": {"type": "string"},
        "bytes": {"type": "integer"},
        "event": {"type": "string", "description": "The id of the event that it is of."},
        "type": {"type": "string"},
        "time": {**_TIME, "description": "The event's own."},
        "revision": {"type": "integer"},
        "repeat_of": {"type": "string", "description": "Where the first payload of this id is."},
        "saw": {"type": "object", "description": "What its enrichment looked up."},
        "version": {"type": "integer", "description": "Of the state that has the event."},
        "or_earlier": {"const": True, "description": "Earlier versions may have it, too."},
        "table": {"type": "string"},
        "row_key": {"type": "integer"},
        "by": {"type": "string", "description": "Which job it waits for, or has ended it."},
        "cause": {"type": "string"},
        "detail": {"type": "string"},
        "letter": {"type": "string"},
        "status": {"type": ["string", "integer", "null"]},
        "since": _TIME,
        "next_try": _TIME,
        "tries": {"type": "integer"},
        "behind": {"type": "object", "description": "The first of the line that it waits in."},
        "hook": {"type": "string"},
        "try": {"type": "integer"},
        "verdict": {"type": "string"},
        "of": {"const": "completion"},
    },
}
WHEREABOUTS: dict[str, Any] = {
    "type": "object",
    "required": ["id", "now", "why", "stages"],
    "properties": {
        "id": {"type": "string"},
        "now": {"enum": [*NOW], "description": "How far it has come."},
        "why": {"type": "string"},
        "stages": {"type": "array", "items": _STAGE},
    },
}
SCHEMAS: dict[str, Any] = {"Whereabouts": WHEREABOUTS}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The stages that it has come through, each with its place and time.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Whereabouts"}}},
    },
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
    404: {"description": "Nothing has this id, or nothing that this caller may read."},
    503: {"description": "Kafka or PostgreSQL does not answer."},
}
