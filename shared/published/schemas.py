"""What stands on each topic, for whoever reads or writes there: JSON Schema of values, headers and
keys, made from the flow's contracts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.contract import contract_of
from shared.events import envelope
from shared.folding.snapshot import META
from shared.ids import FULL_ID, TENANT
from shared.model import Endpoint, Entity, EventType, Fields
from shared.topology import (
    CREDENTIAL_TOPIC,
    JOB_STATUS_TOPIC,
    REFOLD_TOPIC,
    REFOLDED_TOPIC,
    RELAY_HEARTBEAT_KEY,
    REPEAT_TOPIC,
    Flow,
    Job,
    again_topic,
    gate_topic,
    master_topic,
    wake_topic,
)

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_ARRAY = {"type": "array"}
_BURST = {
    "type": "array",
    "description": "moments of its type since then, digests of ids",
    "prefixItems": [_COUNT, _TEXT],
    "minItems": 2,
    "maxItems": 2,
}
_TIME_MS = {"type": "integer", "description": "epoch milliseconds"}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
_ENTITY_ID = {"type": "string", "pattern": f"^{FULL_ID.pattern}$"}
_RFC3339 = {"type": "string", "format": "date-time"}

# what a header's text may be, where that can be said once for all topics
_HEADERS: dict[str, Fields] = {
    envelope.SPEC_VERSION: {"const": "1.0"},
    envelope.ID: _TEXT,
    envelope.TYPE: _TEXT,
    envelope.SOURCE: _TEXT,
    envelope.SUBJECT: _ENTITY_ID,
    envelope.TIME: _RFC3339,
    envelope.CONTENT_TYPE: _TEXT,
    envelope.CONTENT_ENCODING: _TEXT,
    envelope.TRACE_PARENT: _TEXT,
    envelope.PAYLOAD_SHA256: {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    envelope.TENANT: {"type": "string", "pattern": f"^{TENANT.pattern}$"},
    envelope.ORIGIN: {"type": "string", "description": "topic/partition/offset"},
    envelope.ARRIVED: {
        "type": "string",
        "pattern": "^[0-9]+$",
        "description": "epoch milliseconds of the payload's first arrival, by the broker's clock",
    },
    envelope.RECEIVED: {
        "type": "string",
        "pattern": "^[0-9]+$",
        "description": "epoch milliseconds, by the gateway's clock, where its spool held it",
    },
    envelope.ATTEMPT: {"type": "string", "pattern": "^[1-9][0-9]*$"},
    envelope.REVISION: {"type": "string", "pattern": "^[1-9][0-9]*$"},
    envelope.READ_AT: {"type": "string", "description": "topic/partition/offset"},
    envelope.TRIES: {"type": "string", "pattern": "^[1-9][0-9]*$"},
    envelope.STAGE: _TEXT,
    envelope.REASON: _TEXT,
    envelope.DETAIL: _TEXT,
    envelope.DISCARDED: {"const": "1", "description": "nothing is to become of it any more"},
    envelope.SOFTWARE: {**_TEXT, "description": "the version of Headrace that could not do it"},
    envelope.ATTEMPTS: {**_TEXT, "description": "JSON: the times before, each with its reason"},
    envelope.REWRITTEN: {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "sha256 of the payload before an operator changed its bytes",
    },
}
_INGEST_HEADERS = (
    envelope.SPEC_VERSION,
    envelope.ID,
    envelope.TYPE,
    envelope.SOURCE,
    envelope.TIME,
    envelope.PAYLOAD_SHA256,
)
_INGEST_HEADERS_AT_TIMES = (
    envelope.CONTENT_TYPE,
    envelope.CONTENT_ENCODING,
    envelope.TRACE_PARENT,
    envelope.TENANT,
    envelope.RECEIVED,
)
_COMPLETION_HEADERS = (
    envelope.SPEC_VERSION,
    envelope.ID,
    envelope.TYPE,
    envelope.SOURCE,
    envelope.SUBJECT,
    envelope.TIME,
    envelope.CONTENT_TYPE,
)
_EVENT_HEADERS = (*_COMPLETION_HEADERS, envelope.ORIGIN)
_AGAIN_HEADERS = (envelope.ID, envelope.ORIGIN, envelope.ARRIVED, envelope.ATTEMPT)
_AGAIN_AT_TIMES = (
    envelope.REVISION,
    envelope.ATTEMPTS,
    envelope.REWRITTEN,
    envelope.SUBJECT,
    envelope.DISCARDED,
)
_FAILURE_HEADERS = (envelope.STAGE, envelope.ORIGIN, envelope.REASON, envelope.DETAIL)


class Message(NamedTuple):
    """A kind of record on a topic."""

    name: str
    says: str
    key: Fields
    headers: Fields
    value: Fields | None  # None: bytes as they came


def messages(flow: Flow) -> dict[str, list[Message]]:
    """By topic, for every topic of the flow."""
    return {
        **{row.topic: [_payload(row)] for row in flow.endpoints},
        again_topic("enrich"): [_again()],
        **{row.topic: [_event(row)] for row in flow.event_types},
        **{
            row.topic: [
                Message(
                    "snapshot",
                    "the latest state; null: it is gone",
                    _TEXT,
                    _object({}),
                    _state(row),
                )
            ]
            for row in flow.with_state
        },
        **{row.completion_topic: [_completion(row)] for row in flow.event_types},
        **{master_topic(table): _master(table) for table in flow.published_tables},
        **{
            lane: [_waiting_or_parked(job)]
            for job in flow.jobs()
            if job.name != "retry"  # it parks what enrich would have parked
            for lane in (*job.waits_in, *job.parks_in)
        },
        **(_of_the_lane() if flow.master_tables else {}),
        **(_of_fold() if flow.entities else {}),
        JOB_STATUS_TOPIC: [_job_status()],
        CREDENTIAL_TOPIC: [_credential()],
    }


def _payload(endpoint: Endpoint) -> Message:
    ours = {
        envelope.TYPE: {"const": f"ingest.{endpoint.name}"},
        envelope.SOURCE: {"const": f"/v1/{endpoint.name}"},
    }
    return Message(
        "payload",
        "as it was posted, byte for byte; only enrich looks into it and holds it to this schema",
        _ENTITY_ID,
        _headers(_INGEST_HEADERS, _INGEST_HEADERS_AT_TIMES, ours),
        of_contract(endpoint.payload),
    )


def _again() -> Message:
    its_own = tuple(name for name in _INGEST_HEADERS if name not in _AGAIN_HEADERS)
    return Message(
        "again",
        "a payload that comes again, byte for byte: retried, redriven or to be corrected. Its "
        "origin's endpoint takes it, at the time of its first arrival",
        _ENTITY_ID,
        _headers(_AGAIN_HEADERS, (*its_own, *_INGEST_HEADERS_AT_TIMES, *_AGAIN_AT_TIMES), {}),
        None,
    )


def _event(event_type: EventType) -> Message:
    data = of_contract(event_type.data)
    definitions = data.pop("$defs", {})
    value = _object(
        {
            "id": {**_TEXT, "description": "the same for every writing of the same event"},
            "type": {"const": event_type.name},
            "entity_id": _ENTITY_ID,
            "time_ms": {**_TIME_MS, "description": "epoch milliseconds, by the device's own clock"},
            "arrived_ms": {**_TIME_MS, "description": "epoch milliseconds, by the broker's clock"},
            "origin": {
                "type": "array",
                "description": "topic, partition and offset of what it was made from: a payload, "
                "or the event that an entity was changed by",
                "prefixItems": [_TEXT, _COUNT, _COUNT],
                "minItems": 3,
                "maxItems": 3,
            },
            "data": data,
        },
        at_times={
            "attempt": {"type": "integer", "minimum": 1},
            "cause": {**_TEXT, "description": "id of the event that this one follows from"},
            "revision": {"type": "integer", "minimum": 1},
            **({"shape": {"const": event_type.shape}} if event_type.upcasters else {}),
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
    return Message(
        "event",
        "in the common format; a repeat has the same id and origin",
        _ENTITY_ID,
        _headers(_EVENT_HEADERS, kept, ours),
        value,
    )


def _state(row: Any) -> Fields:
    """The state's own fields and, beside them, what the snapshot knows of itself."""
    state = of_contract(row.state)
    meta = {
        "version": {**_COUNT, "description": "grows with every change"},
        "event_time_ms": {"type": ["integer", "null"]},
        "fold": {**_TEXT, "description": "fingerprint of the code that made it"},
    }
    place_in_log = {
        "newest": {
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 3,
                "maxItems": 3,
            },
        },
        "rings": {
            "type": "object",
            "additionalProperties": {**_TEXT, "description": "digests of the type's last ids"},
        },
        "positions": {"type": "object", "additionalProperties": _COUNT},
        "marks": {"type": "object", "additionalProperties": _COUNT},
    }
    at_times = {
        "bursts": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": _BURST},
            "description": "the same of what came together",
        },
        "parked": {"type": "array", "items": _TEXT},
        "arrived_ms": _TIME_MS,
        "emissions": {"type": "array", "items": {"type": "object"}},
        "corrections": {"type": "object", "additionalProperties": _COUNT},
        "retried_marks": {"type": "object", "additionalProperties": _COUNT},
        "asked": {
            "type": "object",
            "additionalProperties": _COUNT,
            "description": "events that a refold which is under way takes in",
        },
        "emitted_to": {
            "type": "object",
            "additionalProperties": _COUNT,
            "description": "meanwhile, up to where what follows from events was emitted",
        },
        "ended_ms": _TIME_MS,
        "deleted": {"const": True, "description": "the state is the initial one again"},
        "late": {**_COUNT, "description": "events that came after a newer one of their type"},
        "clock_off": {**_COUNT, "description": "events that count by their arrival"},
    }
    # of an aggregate, its members' snapshots tell what is in it
    own = _object({**meta, **place_in_log}, at_times) if isinstance(row, Entity) else _object(meta)
    return {
        **state,
        "properties": {**state.get("properties", {}), META: own},
        "required": [*state.get("required", []), META],
    }


def _completion(event_type: EventType) -> Message:
    ours = {
        envelope.TYPE: {"const": f"completion.{event_type.name}"},
        envelope.SOURCE: {"const": "/persist"},
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    return Message(
        "completion",
        "this event is a row now; at least once, under the same ce_id. A correction of it has a "
        "ce_id of its own, and its revision",
        _ENTITY_ID,
        _headers(_COMPLETION_HEADERS, (envelope.REVISION, envelope.TRACE_PARENT), ours),
        _object(
            {
                "row_key": {"type": "integer"},
                "event_id": _TEXT,
                "type": {"const": event_type.name},
                "entity_id": _ENTITY_ID,
                "stored_at": _RFC3339,
            },
            at_times={"revision": {"type": "integer", "minimum": 1}},
        ),
    )


def _master(table: str) -> list[Message]:
    headers = {
        envelope.TYPE: {"const": f"master.{table}"},
        envelope.SOURCE: {"const": "/postgres"},
        envelope.SUBJECT: _TEXT,
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    return [
        Message(
            "row",
            f"the row of {table} as it is now; null: it was deleted",
            {**_TEXT, "not": {"const": RELAY_HEARTBEAT_KEY}},
            _headers(_COMPLETION_HEADERS, (), headers),
            {"type": ["object", "null"]},
        ),
        Message(
            "heartbeat",
            "whatever was committed until then is on this topic",
            {"const": RELAY_HEARTBEAT_KEY},
            _object({}),
            _object({"as_of_ms": _TIME_MS}),
        ),
    ]


def _waiting_or_parked(job: Job) -> Message:
    of_attempts = (
        *(envelope.ARRIVED, envelope.ATTEMPT, *_AGAIN_AT_TIMES),
        *(envelope.SOFTWARE, envelope.READ_AT, envelope.TRIES),
    )
    its_own = (*_INGEST_HEADERS, *_INGEST_HEADERS_AT_TIMES, *of_attempts, envelope.SUBJECT)
    return Message(
        "untouched",
        f"a record of {' or '.join(job.ignited_by)}, byte for byte, and why it did not pass",
        {"type": ["string", "null"]},
        _headers(_FAILURE_HEADERS, its_own, {envelope.STAGE: {"const": job.name}}),
        None,
    )


def _of_fold() -> dict[str, list[Message]]:
    whose = {"entity": _TEXT, "id": _ENTITY_ID}
    counts = {"type": "object", "additionalProperties": _COUNT}
    refold = _object({**whose, "positions": counts, "asked": counts}, {"emitted_to": counts})
    refolded = {**whose, "snapshot": {"type": "object"}, "parked": _ARRAY}
    request = Message(
        "refold",
        "an entity is to be folded anew from its event log, up to these positions, since an event "
        "was corrected or sent on again; null: it was. What it gets meanwhile waits in fold",
        {**_TEXT, "description": "entity:id"},
        _object({}),
        {**refold, "type": ["object", "null"]},
    )
    answer = Message(
        "refolded",
        "the entity as it was folded anew; fold takes it in, and publishes it with its state",
        _ENTITY_ID,
        _object({}),
        _object(refolded, {"follows": _ARRAY}),
    )
    return {REPEAT_TOPIC: [_repeats()], REFOLD_TOPIC: [request], REFOLDED_TOPIC: [answer]}


def _of_the_lane() -> dict[str, list[Message]]:
    return {gate_topic("enrich"): [_gate()], wake_topic("enrich"): [_wake()]}


def _gate() -> Message:
    return Message(
        "gate",
        "an entity whose payloads wait, how many, and what the first waits for; null: none does",
        _ENTITY_ID,
        _object({}),
        {
            "oneOf": [
                {"type": "null"},
                _object(
                    {
                        "payloads": {**_COUNT, "description": "to a sixteenth"},
                        "since_ms": _TIME_MS,
                        "origin": _TEXT,
                        "reason": _TEXT,
                        "detail": _TEXT,
                        "needs": {
                            "type": "object",
                            "description": "of each partition of the lane nothing before that",
                            "additionalProperties": _COUNT,
                        },
                    },
                    {
                        "full": {
                            "type": "boolean",
                            "description": "what comes beyond is parked; absent: it is not",
                        },
                    },
                ),
            ]
        },
    )


def _wake() -> Message:
    return Message(
        "wake",
        "retry looks at all that waits, and anew for rows of master data that have come",
        {"type": "null"},
        _object({}),
        {
            "type": "array",
            "items": {
                **_TEXT,
                "description": "table/key of a row that has come; *: look at all; @ and epoch "
                "milliseconds: master data is complete up to then",
            },
        },
    )


def _repeats() -> Message:
    places = {"type": "object", "additionalProperties": {"type": "array", "items": _COUNT}}
    return Message(
        "repeats",
        "payloads whose events fold passed over, because their ids had come before: offsets by "
        "ingest topic/partition. The ledger reads it",
        _ENTITY_ID,
        _object({}),
        places,
    )


def _job_status() -> Message:
    return Message(
        "status",
        "the last word of each job",
        {**_TEXT, "description": "the job"},
        _object({}),
        _object(
            {
                "job": _TEXT,
                "state": _TEXT,
                "detail": _TEXT,
                "at_ms": _TIME_MS,
                "lag_records": _NUMBER_OR_NULL,
                "lag_s": _NUMBER_OR_NULL,
                "batch_id": {"type": ["integer", "null"]},
                "rows_per_s": _NUMBER_OR_NULL,
            },
            at_times={
                "master_as_of_ms": {"type": ["integer", "null"]},
                "ledger": {"type": "object", "description": "what became of payloads, and when"},
                "letters": {"type": "object", "description": "dead letters that are undecided"},
                "lanes": {
                    "type": "object",
                    "description": "what waits in them, and what has gone on or was given up",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {
                            "full": {
                                "type": "array",
                                "items": _TEXT,
                                "description": "whose caps bite, some of them",
                            }
                        },
                        "additionalProperties": {"type": "number"},
                    },
                },
                "breakers": {
                    "type": "object",
                    "description": "by store: closed, half-open, or open and the job pauses",
                    "additionalProperties": _object(
                        {
                            "state": {"enum": ["closed", "open", "half-open"]},
                            "since_ms": {"type": ["integer", "null"]},
                            "reason": _TEXT,
                        }
                    ),
                },
            },
        ),
    )


def _credential() -> Message:
    return Message(
        "credential",
        "who may ask the gateway, made by `./headrace credentials`; null: it is revoked",
        {**_TEXT, "description": "the key's id"},
        _object({}),
        {
            **_object(
                {
                    "kind": {"enum": ["token", "hmac"]},
                    "role": {"enum": ["device", "gateway", "operator"]},
                    "tenant": {"type": "string", "pattern": f"^(?:{TENANT.pattern})?$"},
                    "proof": {
                        "type": "string",
                        "pattern": "^[0-9a-f]*$",
                        "description": "the sha256 of a token's secret, or a signing secret sealed",
                    },
                    "made_ms": _TIME_MS,
                },
                at_times={
                    "device": _TEXT,
                    "all_tenants": {"type": "boolean"},
                    "not_after_ms": _TIME_MS,
                },
            ),
            "type": ["object", "null"],
        },
    )


def of_contract(shape: Any, definitions_at: str = "#/$defs/") -> Fields:
    """Any object where a row gives no contract."""
    if shape is None:
        return {"type": "object"}
    schema = contract_of(shape).json_schema(definitions_at)
    if "$ref" in schema:  # of a shape that holds itself
        name = schema["$ref"].removeprefix(definitions_at)
        return {**schema["$defs"][name], "$defs": schema["$defs"]}
    return schema


def _headers(always: tuple[str, ...], at_times: tuple[str, ...], ours: Mapping[str, Any]) -> Fields:
    known = {**_HEADERS, **ours}
    return _object({n: known[n] for n in always}, {n: known[n] for n in at_times})


def _object(always: Mapping[str, Any], at_times: Mapping[str, Any] | None = None) -> Fields:
    schema: Fields = {"type": "object", "properties": {**always, **(at_times or {})}}
    if always:
        schema["required"] = list(always)
    return schema
