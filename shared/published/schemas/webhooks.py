"""Schemas of the topics of webhooks."""

from shared.events import envelope
from shared.flow_table import Job
from shared.forwarding.hook import Hook, Status
from shared.published.schemas.shapes import (
    COMPLETION_HEADERS,
    COUNT,
    TEXT,
    TIME_MS,
    RecordSchema,
    headers_of,
    map_of,
    object_of,
)
from shared.topic_names import DELIVERY_TOPIC, HOOK_TOPIC, again_topic, gate_topic, wake_topic

_EVENT_HEADERS_AT_TIMES = (
    *COMPLETION_HEADERS,
    envelope.ORIGIN,
    envelope.REVISION,
    envelope.REWRITTEN,
    envelope.TRACE_PARENT,
    envelope.PAYLOAD_SHA256,
    envelope.TENANT,
    envelope.REPLAY,
)
_AGAIN_HEADERS_AT_TIMES = (
    *_EVENT_HEADERS_AT_TIMES,
    envelope.STAGE,
    envelope.REASON,
    envelope.DETAIL,
    envelope.SOFTWARE,
    envelope.TRIES,
    envelope.ATTEMPT,
    envelope.ATTEMPTS,
)


def of_webhooks() -> dict[str, list[RecordSchema]]:
    return {
        HOOK_TOPIC: [_hook(), _status()],
        DELIVERY_TOPIC: [_delivery()],
        gate_topic("forward"): [_gate()],
        wake_topic("forward"): [_wake()],
        again_topic("forward"): [_again()],
    }


def undelivered(job: Job) -> RecordSchema:
    needed = (envelope.STAGE, envelope.ORIGIN, envelope.REASON, envelope.DETAIL, envelope.SOFTWARE)
    own = (envelope.HOOK, envelope.TRIES)
    others = tuple(name for name in _AGAIN_HEADERS_AT_TIMES if name not in needed)
    return RecordSchema(
        "undelivered",
        "an event or a completion, byte for byte, or what was made of a state, that a webhook did "
        "not take, and why",
        {"type": ["string", "null"]},
        headers_of((*needed, *own), others, {envelope.STAGE: {"const": job.name}}),
        None,
    )


def _hook() -> RecordSchema:
    schema = Hook.model_json_schema(mode="serialization")
    return RecordSchema(
        "hook",
        "who gets events by HTTP, written by `./headrace hooks`; null: it is deleted",
        {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"},
        object_of({}),
        {**schema, "type": ["object", "null"]},
    )


def _status() -> RecordSchema:
    schema = Status.model_json_schema(mode="serialization")
    return RecordSchema(
        "status",
        "what forward has decided of a revision of a hook: it is paused, for its server fails all "
        "the time, or it has ended, for its server has said so",
        {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}/status$"},
        object_of({}),
        {**schema, "type": ["object", "null"]},
    )


def _delivery() -> RecordSchema:
    return RecordSchema(
        "delivery",
        "a try to send an event to a hook; a batch that runs again writes its own",
        {"type": ["string", "null"]},
        object_of({}),
        object_of(
            {
                "hook": TEXT,
                "event_id": TEXT,
                "entity_id": TEXT,
                "type": TEXT,
                "try": {"type": "integer", "minimum": 1},
                "at_ms": TIME_MS,
                "ms": {**COUNT, "description": "how long the answer took"},
                "status": {"type": ["integer", "null"], "description": "null: no answer came"},
                "verdict": {"enum": ["done", "failed", "gone"]},
                "said": {
                    **TEXT,
                    "description": "the answer's first bytes, or what went wrong",
                },
            }
        ),
    )


def _gate() -> RecordSchema:
    return RecordSchema(
        "gate",
        "how much waits in a bucket of lines, by hook; null: nothing does",
        {**TEXT, "description": "the bucket"},
        object_of({}),
        {
            **object_of({"oldest_ms": TIME_MS, "waiting": map_of(COUNT)}),
            "type": ["object", "null"],
        },
    )


def _wake() -> RecordSchema:
    return RecordSchema(
        "wake",
        "forward looks at what is due, or hears an answer that no batch has waited for",
        {"type": ["string", "null"]},
        object_of({}),
        object_of({}, at_times={"bucket": COUNT, "line": TEXT, "try": {"type": "array"}}),
    )


def _again() -> RecordSchema:
    return RecordSchema(
        "again",
        "an event, a completion or a state that is sent to one webhook again",
        {"type": ["string", "null"]},
        headers_of((envelope.HOOK,), _AGAIN_HEADERS_AT_TIMES, {}),
        None,
    )
