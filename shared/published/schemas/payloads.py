"""Schemas of the topics that payloads come on, wait on and are parked on."""

from shared.events import envelope
from shared.flow_table import Job
from shared.formats import Json
from shared.ids import FULL_ID
from shared.model import Endpoint
from shared.published.schemas.shapes import (
    COUNT,
    ENTITY_ID,
    INGEST_HEADERS,
    INGEST_HEADERS_AT_TIMES,
    TEXT,
    TIME_MS,
    RecordSchema,
    headers_of,
    object_of,
    of_payload,
)
from shared.topic_names import gate_topic, wake_topic

_AGAIN_HEADERS = (envelope.ID, envelope.ORIGIN, envelope.ARRIVED, envelope.ATTEMPT)
_AGAIN_AT_TIMES = (
    envelope.REVISION,
    envelope.ATTEMPTS,
    envelope.REWRITTEN,
    envelope.SUBJECT,
    envelope.DISCARDED,
)
_FAILURE_HEADERS = (envelope.STAGE, envelope.ORIGIN, envelope.REASON, envelope.DETAIL)


def payload(endpoint: Endpoint) -> RecordSchema:
    names = [name for form in endpoint.formats for name in form.media_types]
    json_too = any(isinstance(form, Json) for form in endpoint.formats)
    ours = {
        envelope.TYPE: {"const": endpoint.payload_type},
        envelope.SOURCE: {"const": f"/v1/{endpoint.name}" if endpoint.is_open else "/fold"},
    }
    posted = (
        "as it was posted, byte for byte; only enrich looks into it and holds it to this schema"
    )
    return RecordSchema(
        "payload",
        posted if endpoint.is_open else "until when an entity waits for the result of an action",
        ENTITY_ID,
        headers_of(INGEST_HEADERS, INGEST_HEADERS_AT_TIMES, ours),
        of_payload(endpoint),
        None if json_too else names[0],
    )


def again() -> RecordSchema:
    its_own = tuple(name for name in INGEST_HEADERS if name not in _AGAIN_HEADERS)
    return RecordSchema(
        "again",
        "a payload that comes again, byte for byte: retried, redriven or to be corrected. Its "
        "origin's endpoint takes it, at the time of its first arrival",
        ENTITY_ID,
        headers_of(_AGAIN_HEADERS, (*its_own, *INGEST_HEADERS_AT_TIMES, *_AGAIN_AT_TIMES), {}),
        None,
    )


def dropped() -> RecordSchema:
    return RecordSchema(
        "dropped",
        "a payload became no event, on purpose; its origin says which",
        ENTITY_ID,
        headers_of((envelope.ID, envelope.ORIGIN), (), {}),
        object_of({"reason": TEXT, "detail": TEXT}),
    )


def breach() -> RecordSchema:
    return RecordSchema(
        "breach",
        "a payload broke its contract, and its endpoint let it pass; its origin says which",
        ENTITY_ID,
        headers_of((envelope.ID, envelope.ORIGIN), (), {}),
        object_of(
            {"endpoint": TEXT, "mode": TEXT, "code": TEXT, "place": TEXT, "detail": TEXT},
            {"firmware": TEXT},
        ),
    )


def waiting_or_parked(job: Job) -> RecordSchema:
    of_attempts = (
        *(envelope.ARRIVED, envelope.ATTEMPT, *_AGAIN_AT_TIMES),
        *(envelope.SOFTWARE, envelope.READ_AT, envelope.TRIES),
    )
    its_own = (*INGEST_HEADERS, *INGEST_HEADERS_AT_TIMES, *of_attempts, envelope.SUBJECT)
    return RecordSchema(
        "untouched",
        f"a record of {' or '.join(job.ignited_by)}, byte for byte, and why it did not pass",
        {"type": ["string", "null"]},
        headers_of(_FAILURE_HEADERS, its_own, {envelope.STAGE: {"const": job.name}}),
        None,
    )


def of_the_lane() -> dict[str, list[RecordSchema]]:
    return {gate_topic("enrich"): [_gate()], wake_topic("enrich"): [_wake()]}


def _gate() -> RecordSchema:
    return RecordSchema(
        "gate",
        "an entity whose payloads wait, how many, and what the first waits for; null: none does. A "
        "payload that waits without order has a record of its own, by its entity's id, a line "
        "break, and its own id",
        {"type": "string", "pattern": f"^{FULL_ID.pattern}(\\n(.|\\n)+)?$"},
        object_of({}),
        {
            "oneOf": [
                {"type": "null"},
                object_of(
                    {
                        "payloads": {**COUNT, "description": "to a sixteenth"},
                        "since_ms": TIME_MS,
                        "origin": TEXT,
                        "reason": TEXT,
                        "detail": TEXT,
                        "needs": {
                            "type": "object",
                            "description": "of each partition of the lane nothing before that",
                            "additionalProperties": COUNT,
                        },
                    },
                    {
                        "full": {
                            "type": "boolean",
                            "description": "what comes beyond is parked; absent: it is not",
                        },
                        "due_ms": {**TIME_MS, "description": "next try; absent: with its row"},
                        "tries": COUNT,
                    },
                ),
            ]
        },
    )


def _wake() -> RecordSchema:
    return RecordSchema(
        "wake",
        "retry looks at all that waits, and anew for rows of master data that have come",
        {"type": "null"},
        object_of({}),
        {
            "type": "array",
            "items": {
                **TEXT,
                "description": "table/key of a row that has come; *: look at all; @ and epoch "
                "milliseconds: master data is complete up to then; try: or give_up: and the key of "
                "a gate: an operator's order",
            },
        },
    )
