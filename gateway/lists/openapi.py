"""What the OpenAPI document says of lists: of each entity its own fields."""

import re
from typing import Any

from gateway.lists.conditions import CONDITIONS_MAX
from gateway.pages.parameters import DESCRIBED_LIMIT
from shared.ids import TENANT
from shared.tables.indexed_fields import ID, IndexedStates

_TEXT = r'"[^"\\\x00-\x1f\x7f]*"'
_WHOLE = r"-?(?:0|[1-9][0-9]{0,14})"
_VALUES = {
    "string": _TEXT,
    "bigint": _WHOLE,
    "double": rf"{_WHOLE}(?:\.[0-9]{{1,9}})?",
    "boolean": "(?:true|false)",
}
_TIME = {"type": "string", "format": "date-time"}
SCHEMAS: dict[str, Any] = {
    "States": {
        "type": "object",
        "required": ["entity", "states", "next", "view", "pipeline_lag_s", "stale"],
        "properties": {
            "entity": {"type": "string"},
            "states": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "version", "event_time", "updated_at", "state"],
                    "properties": {
                        "id": {"type": "string"},
                        "version": {"type": "integer"},
                        "event_time": {**_TIME, "type": ["string", "null"]},
                        "updated_at": _TIME,
                        "late": {"type": "integer"},
                        "clock_off": {"type": "integer"},
                        "state": {"type": "object"},
                    },
                },
            },
            "next": {
                "type": ["string", "null"],
                "description": "For the next page, also of one that has fewer states than `limit`; "
                "null: there is none.",
            },
            "view": {"type": "object"},
            "pipeline_lag_s": {"type": ["number", "null"], "minimum": 0},
            "stale": {"type": "boolean"},
            "stale_because": {"type": "string"},
        },
    }
}


def parameters(states: IndexedStates) -> list[dict[str, Any]]:
    fields = [ID, *(field.name for field in states.fields)]
    told = {
        "where": (
            {"type": "string", "pattern": _pattern(states)},
            'Conditions on indexed fields, such as `value > 30 and area = "north"`: one of '
            "= != < <= > >=, and a value as JSON.",
        ),
        "sort": (
            {"enum": [*fields, *(f"-{field}" for field in fields)], "default": ID},
            "An indexed field or the id, and - before it for the highest first. States that have "
            "nothing there come last.",
        ),
        "limit": (DESCRIBED_LIMIT, "At most so many states."),
        "next": ({"type": "string"}, "What the page before said is next."),
        "tenant": ({"type": "string", "pattern": f"^({TENANT.pattern})?$"}, "Of these states."),
    }
    return [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": why}
        for name, (schema, why) in told.items()
    ]


def _pattern(states: IndexedStates) -> str:
    """A pattern for conditions without blanks that need not be; others are read, too."""
    kinds = {ID: "string", **{field.name: field.kind for field in states.fields}}
    one = "|".join(_condition(name, kind) for name, kind in kinds.items())
    return f"^(?:{one})(?: and (?:{one})){{0,{CONDITIONS_MAX - 1}}}$"


def _condition(name: str, kind: str) -> str:
    signs = "!?=" if kind == "boolean" else "(?:!?=|[<>]=?)"
    its = f" ?{signs} ?{_VALUES[kind]}"
    nothing = "" if name == ID else "| ?!?= ?null"
    return f"{re.escape(name)}(?:{its}{nothing})"
