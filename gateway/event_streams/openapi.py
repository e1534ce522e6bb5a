"""What the OpenAPI document says of GET /v1/events, which FastAPI's router does not know."""

from typing import Any

from gateway.event_streams.wanted_events import ENTITIES_MAX
from gateway.http.problems import MEDIA_TYPE
from shared.flow_table import Flow
from shared.ids import ENTITY_ID, TENANT

_REFUSALS = {
    "400": "A parameter or id is unknown or cannot be read.",
    "401": "The gateway wants to know who is asking, and this is nobody that it knows.",
    "403": "Events of another id or tenant than this caller's; or a foreign page asks.",
    "410": "The log no longer has what comes after this id: begin anew, without it.",
    "429": "This caller has so many streams that the room left is for others: come again later.",
    "503": "Kafka is away, the gateway ends, or it has as many streams as it may: come again.",
}


def operation(flow: Flow) -> dict[str, Any]:
    entity = {"type": "string", "pattern": f"^{ENTITY_ID.pattern}$"}
    types = {"enum": [row.name for row in flow.event_types]}
    return {
        "summary": "Events as they come, as server-sent events",
        "description": "Without an end: each message has an event as its topic has it, and an `id` "
        "from which any gateway goes on, none left out and none twice. Messages of the type `end` "
        "say why a stream ends. Without an id, `since` or `from=earliest` it begins now.",
        "operationId": "events",
        "parameters": [
            _several("type", types, "Event types; without it, all."),
            _several("entity", {**entity}, f"At most {ENTITIES_MAX}; without it, all."),
            _one("tenant", "query", {"type": "string", "pattern": f"^({TENANT.pattern})?$"}),
            _one("from", "query", {"enum": ["now", "earliest"]}),
            _one("since", "query", {"type": "string", "format": "date-time"}),
            _one("after", "query", {"type": "string"}, "As Last-Event-ID, where none can be sent."),
            _one("Last-Event-ID", "header", {"type": "string"}, "The last `id` that was seen."),
        ],
        "responses": {
            "200": {
                "description": "The stream.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **{
                status: {
                    "description": why,
                    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
                for status, why in _REFUSALS.items()
            },
        },
    }


def _one(name: str, place: str, schema: dict[str, Any], why: str = "") -> dict[str, Any]:
    said = {"description": why} if why else {}
    return {"name": name, "in": place, "required": False, "schema": schema, **said}


def _several(name: str, items: dict[str, Any], why: str) -> dict[str, Any]:
    return _one(name, "query", {"type": "array", "items": items}, why)
