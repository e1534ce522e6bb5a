"""Schemas of the topics that keep the system going: master data, the status of jobs,
credentials."""

from shared.events import envelope
from shared.ids import TENANT
from shared.model import Table
from shared.published.job_orders import WHY_MAX, Wanted
from shared.published.schemas.shapes import (
    COMPLETION_HEADERS,
    TEXT,
    TIME_MS,
    RecordSchema,
    headers_of,
    object_of,
    of_contract,
)
from shared.topic_names import RELAY_HEARTBEAT_KEY

_NUMBER_OR_NULL = {"type": ["number", "null"]}


def master_data(table: Table) -> list[RecordSchema]:
    headers = {
        envelope.TYPE: {"const": f"master.{table.name}"},
        envelope.SOURCE: {"const": "/postgres"},
        envelope.SUBJECT: TEXT,
        envelope.CONTENT_TYPE: {"const": "application/json"},
    }
    since = f", which counts from {table.valid_from} on; key: <{table.key}>@<{table.valid_from}>"
    return [
        RecordSchema(
            "row",
            f"the row of {table.name}{since if table.valid_from else ''} as it is now; null: it "
            "was deleted",
            {**TEXT, "not": {"const": RELAY_HEARTBEAT_KEY}},
            headers_of(COMPLETION_HEADERS, (), headers),
            {**of_contract(table.row), "type": ["object", "null"]},
        ),
        RecordSchema(
            "heartbeat",
            "whatever was committed until then is on this topic",
            {"const": RELAY_HEARTBEAT_KEY},
            object_of({}),
            object_of({"as_of_ms": TIME_MS}),
        ),
    ]


def job_status() -> RecordSchema:
    return RecordSchema(
        "status",
        "the last word of each job",
        {**TEXT, "description": "the job"},
        object_of({}),
        object_of(
            {
                "job": TEXT,
                "state": TEXT,
                "detail": TEXT,
                "at_ms": TIME_MS,
                "lag_records": _NUMBER_OR_NULL,
                "lag_s": _NUMBER_OR_NULL,
                "batch_id": {"type": ["integer", "null"]},
                "rows_per_s": _NUMBER_OR_NULL,
            },
            at_times={
                "master_as_of_ms": {"type": ["integer", "null"]},
                "ledger": {"type": "object", "description": "what became of payloads, and when"},
                "hooks": {
                    "type": "object",
                    "description": "webhooks: how many, what waits for them",
                },
                "letters": {"type": "object", "description": "dead letters that are undecided"},
                "view": {"type": "object", "description": "how far it is, and what it left out"},
                "partitions": {
                    "type": "object",
                    "description": "by topic and partition: records that the job has yet to "
                    "finish, and the age of the oldest in seconds",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": {"type": "array", "items": _NUMBER_OR_NULL},
                    },
                },
                "lanes": {
                    "type": "object",
                    "description": "what waits in them, and what has gone on or was given up",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {
                            "full": {
                                "type": "array",
                                "items": TEXT,
                                "description": "whose caps bite, some of them",
                            }
                        },
                        "additionalProperties": {"type": "number"},
                    },
                },
                "breakers": {
                    "type": "object",
                    "description": "by store: closed, half-open, or open and the job pauses",
                    "additionalProperties": object_of(
                        {
                            "state": {"enum": ["closed", "open", "half-open"]},
                            "since_ms": {"type": ["integer", "null"]},
                            "reason": TEXT,
                        }
                    ),
                },
            },
        ),
    )


def job_order() -> RecordSchema:
    why = {"type": "string", "maxLength": WHY_MAX}
    given = {"by": TEXT, "at_ms": TIME_MS, "why": why}
    rebuild = object_of({"order": {"const": Wanted.REBUILD}, **given, "then": {"type": "null"}})
    then = "of a pause: the rebuild that stood before it, which is done when the job goes on"
    return RecordSchema(
        "order",
        "what an operator wants of a job; null: that it works",
        {**TEXT, "description": "the job"},
        object_of({}),
        {
            **object_of(
                {
                    "order": {"enum": [*Wanted]},
                    **given,
                },
                {"then": {**rebuild, "type": ["object", "null"], "description": then}},
            ),
            "type": ["object", "null"],
        },
    )


def credential() -> RecordSchema:
    return RecordSchema(
        "credential",
        "who may ask the gateway, made by `./headrace credentials`; null: it is revoked",
        {**TEXT, "description": "the key's id"},
        object_of({}),
        {
            **object_of(
                {
                    "kind": {"enum": ["token", "hmac"]},
                    "role": {"enum": ["device", "gateway", "operator"]},
                    "tenant": {"type": "string", "pattern": f"^(?:{TENANT.pattern})?$"},
                    "proof": {
                        "type": "string",
                        "pattern": "^[0-9a-f]*$",
                        "description": "the sha256 of a token's secret, or a signing secret sealed",
                    },
                    "made_ms": TIME_MS,
                },
                at_times={
                    "device": TEXT,
                    "all_tenants": {"type": "boolean"},
                    "may": {
                        "enum": ["look", "operate"],
                        "description": "of an operator at the desk, who else may administer it",
                    },
                    "not_after_ms": TIME_MS,
                },
            ),
            "type": ["object", "null"],
        },
    )
