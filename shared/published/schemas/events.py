"""Schemas of the topics of events, of the states that they become, and of their completions."""

from typing import Any

from shared.events import envelope
from shared.folding.snapshot import META
from shared.model import Entity, EventType, Fields, View
from shared.published.schemas.shapes import (
    ARRAY,
    COMPLETION_HEADERS,
    COUNT,
    ENTITY_ID,
    RFC3339,
    TEXT,
    TIME_MS,
    RecordSchema,
    headers_of,
    map_of,
    object_of,
    of_contract,
    row_of,
)
from shared.tables.view_tables import table_of
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC, REPEAT_TOPIC

_BURST = row_of("moments of its type since then, digests of ids", COUNT, TEXT)
_EVENT_HEADERS = (*COMPLETION_HEADERS, envelope.ORIGIN)


def event(event_type: EventType) -> RecordSchema:
    data = of_contract(event_type.data)
    definitions = data.pop("$defs", {})
    value = object_of(
        {
            "id": {**TEXT, "description": "the same for every writing of the same event"},
            "type": {"const": event_type.name},
            "entity_id": ENTITY_ID,
            "time_ms": {**TIME_MS, "description": "epoch milliseconds, by the device's own clock"},
            "arrived_ms": {**TIME_MS, "description": "epoch milliseconds, by the broker's clock"},
            "origin": row_of(
                "topic, partition and offset of what it was made from: a payload, or the event "
                "that an entity was changed by",
                *(TEXT, COUNT, COUNT),
            ),
            "data": data,
        },
        at_times={
            "attempt": {"type": "integer", "minimum": 1},
            "cause": {**TEXT, "description": "id of the event that this one follows from"},
            "revision": {"type": "integer", "minimum": 1},
            **({"shape": {"const": event_type.shape}} if event_type.upcasters else {}),
            "part": row_of(
                "which event of its payload it is, from 0 on, and of how many", COUNT, COUNT
            ),
            "saw": {
                **map_of(COUNT),
                "description": "versions of the states that its enrichment looked at, by "
                "entity/id; 0: there was none. Of the services that it asked, when each answer "
                "came, by look-up/key, in epoch milliseconds",
            },
        },
    )
    if definitions:
        value["$defs"] = definitions
    ours = {
        envelope.TYPE: {"const": event_type.name},
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    kept = (
        envelope.REVISION,
        envelope.REWRITTEN,
        envelope.TRACE_PARENT,
        envelope.PAYLOAD_SHA256,
        envelope.TENANT,
    )
    return RecordSchema(
        "event",
        "in the common format; a repeat has the same id and origin",
        ENTITY_ID,
        headers_of(_EVENT_HEADERS, kept, ours),
        value,
    )


def view_row(row: View) -> RecordSchema:
    """Without a contract only Spark knows its other columns, and what they are."""
    version = {**TIME_MS, "description": "the time up to which the log is in it"}
    columns: Fields = {name: {} for name in row.key}
    its_key, definitions = row.key, {}
    if row.row is not None:
        contract = of_contract(row.row)
        columns, its_key = contract["properties"], table_of(row).key_fields
        definitions = {"$defs": contract["$defs"]} if "$defs" in contract else {}
    key = {**object_of({name: columns[name] for name in its_key}), **definitions}
    value = {**object_of({**columns, META: object_of({"version": version})}), **definitions}
    says = "a row of the view; of one key the higher version counts"
    return RecordSchema("row", says, {**TEXT, "contentSchema": key}, object_of({}), value)


def snapshot(row: Any) -> RecordSchema:
    says = "the latest state; null: it is gone"
    return RecordSchema("snapshot", says, TEXT, object_of({}), _state(row))


def _state(row: Any) -> Fields:
    """The state's own fields and, beside them, what the snapshot knows of itself."""
    state = of_contract(row.state)
    meta = {
        "version": {**COUNT, "description": "grows with every change"},
        "event_time_ms": {"type": ["integer", "null"]},
        "fold": {**TEXT, "description": "fingerprint of the code that made it"},
    }
    place_in_log = {
        "newest": map_of({**ARRAY, "items": {"type": "integer"}, "minItems": 3, "maxItems": 3}),
        "rings": map_of({**TEXT, "description": "digests of the type's last ids"}),
        "positions": map_of(COUNT),
        "marks": map_of(COUNT),
    }
    at_times = {
        "bursts": {
            **map_of({**ARRAY, "items": _BURST}),
            "description": "the same of what came together",
        },
        "parked": {"type": "array", "items": TEXT},
        "arrived_ms": TIME_MS,
        "emissions": {"type": "array", "items": {"type": "object"}},
        "corrections": map_of(COUNT),
        "mark_parts": {
            **map_of(COUNT),
            "description": "of a payload that became several events, the last one that is in it",
        },
        "retried_marks": map_of(COUNT),
        "asked": {
            **map_of(COUNT),
            "description": "events that a refold which is under way takes in",
        },
        "emitted_to": {
            **map_of(COUNT),
            "description": "meanwhile, up to where what follows from events was emitted",
        },
        "ended_ms": TIME_MS,
        "deleted": {"const": True, "description": "the state is the initial one again"},
        "late": {**COUNT, "description": "events that came after a newer one of their type"},
        "clock_off": {**COUNT, "description": "events that count by their arrival"},
    }
    # of an aggregate, its members' snapshots tell what is in it
    is_entity = isinstance(row, Entity)
    own = object_of({**meta, **place_in_log}, at_times) if is_entity else object_of(meta)
    return {
        **state,
        "properties": {**state.get("properties", {}), META: own},
        "required": [*state.get("required", []), META],
    }


def completion(event_type: EventType) -> RecordSchema:
    ours = {
        envelope.TYPE: {"const": f"completion.{event_type.name}"},
        envelope.SOURCE: {"const": "/persist"},
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    return RecordSchema(
        "completion",
        "this event is a row now; at least once, under the same ce_id. A correction of it has a "
        "ce_id of its own, and its revision",
        ENTITY_ID,
        headers_of(COMPLETION_HEADERS, (envelope.REVISION, envelope.TRACE_PARENT), ours),
        object_of(
            {
                "row_key": {"type": "integer"},
                "event_id": TEXT,
                "type": {"const": event_type.name},
                "entity_id": ENTITY_ID,
                "stored_at": RFC3339,
            },
            at_times={"revision": {"type": "integer", "minimum": 1}},
        ),
    )


def state_completion(name: str) -> RecordSchema:
    ours = {
        envelope.TYPE: {"const": f"completion.state.{name}"},
        envelope.SOURCE: {"const": "/persist"},
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    return RecordSchema(
        "completion",
        "this version of the state is a row now; at least once, under the same ce_id. Of versions "
        "that come together only the highest becomes a row, and has a completion",
        ENTITY_ID,
        headers_of(COMPLETION_HEADERS, (), ours),
        object_of(
            {
                "entity": {"const": name},
                "entity_id": ENTITY_ID,
                "version": {**COUNT, "description": "that of the snapshot; versions are left out"},
                "stored_at": RFC3339,
            },
            at_times={"deleted": {"const": True}},
        ),
    )


def of_fold() -> dict[str, list[RecordSchema]]:
    whose = {"entity": TEXT, "id": ENTITY_ID}
    counts = map_of(COUNT)
    refold = object_of({**whose, "positions": counts, "asked": counts}, {"emitted_to": counts})
    refolded = {**whose, "snapshot": {"type": "object"}, "parked": ARRAY}
    request = RecordSchema(
        "refold",
        "an entity is to be folded anew from its event log, up to these positions, since an event "
        "was corrected or sent on again; null: it was. What it gets meanwhile waits in fold",
        {**TEXT, "description": "entity:id"},
        object_of({}),
        {**refold, "type": ["object", "null"]},
    )
    answer = RecordSchema(
        "refolded",
        "the entity as it was folded anew; fold takes it in, and publishes it with its state",
        ENTITY_ID,
        object_of({}),
        object_of(refolded, {"follows": ARRAY}),
    )
    return {REPEAT_TOPIC: [_repeats()], REFOLD_TOPIC: [request], REFOLDED_TOPIC: [answer]}


def _repeats() -> RecordSchema:
    several = {**ARRAY, "items": {**ARRAY, "items": TEXT, "minItems": 2, "maxItems": 2}}
    places = {**map_of({**ARRAY, "items": COUNT}), "properties": {"several": several}}
    return RecordSchema(
        "repeats",
        "payloads whose events fold passed over, because their ids had come before: offsets by "
        "ingest topic/partition; of payloads of several events, place and event. The ledger "
        "reads it",
        ENTITY_ID,
        object_of({}),
        places,
    )
