"""What the schemas of all topics are made of: common shapes, headers, and the flow's contracts."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shared.contract import contract_of, payload_contract, versions_of
from shared.events import envelope
from shared.formats import ByField, Json, Versions
from shared.ids import FULL_ID, TENANT
from shared.model import Endpoint, Fields

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
ARRAY = {"type": "array"}
TIME_MS = {"type": "integer", "description": "epoch milliseconds"}
ENTITY_ID = {"type": "string", "pattern": f"^{FULL_ID.pattern}$"}
RFC3339 = {"type": "string", "format": "date-time"}

# what a header's text may be, where that can be said once for all topics
_HEADERS: dict[str, Fields] = {
    envelope.SPEC_VERSION: {"const": "1.0"},
    envelope.ID: TEXT,
    envelope.TYPE: TEXT,
    envelope.SOURCE: TEXT,
    envelope.SUBJECT: ENTITY_ID,
    envelope.TIME: RFC3339,
    envelope.CONTENT_TYPE: TEXT,
    envelope.CONTENT_ENCODING: TEXT,
    envelope.TRACE_PARENT: TEXT,
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
    envelope.TRIES: {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
    envelope.REPLAY: {"const": "1", "description": "beside what is new, which goes first"},
    envelope.HOOK: {**TEXT, "description": "the one webhook that it is for"},
    envelope.STAGE: TEXT,
    envelope.REASON: TEXT,
    envelope.DETAIL: TEXT,
    envelope.DISCARDED: {"const": "1", "description": "nothing is to become of it any more"},
    envelope.SOFTWARE: {**TEXT, "description": "the version of Headrace that could not do it"},
    envelope.ATTEMPTS: {**TEXT, "description": "JSON: the times before, each with its reason"},
    envelope.REWRITTEN: {
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "sha256 of the payload before an operator changed its bytes",
    },
}
INGEST_HEADERS = (
    envelope.SPEC_VERSION,
    envelope.ID,
    envelope.TYPE,
    envelope.SOURCE,
    envelope.TIME,
    envelope.PAYLOAD_SHA256,
)
INGEST_HEADERS_AT_TIMES = (
    envelope.CONTENT_TYPE,
    envelope.CONTENT_ENCODING,
    envelope.TRACE_PARENT,
    envelope.TENANT,
    envelope.RECEIVED,
)
COMPLETION_HEADERS = (
    envelope.SPEC_VERSION,
    envelope.ID,
    envelope.TYPE,
    envelope.SOURCE,
    envelope.SUBJECT,
    envelope.TIME,
    envelope.CONTENT_TYPE,
)


class RecordSchema(NamedTuple):
    name: str
    says: str
    key: Fields
    headers: Fields
    value: Fields | None  # None: bytes as they came
    content_type: str | None = None  # None: JSON


def of_payload(endpoint: Endpoint, definitions_at: str = "#/$defs/") -> Fields:
    """When it is decoded. Without a contract it is an object if its formats have nothing else."""
    if versions := versions_of(endpoint):
        return _one_of(endpoint, versions, definitions_at)
    if (contract := payload_contract(endpoint)) is not None:
        return _named(contract.json_schema(definitions_at), definitions_at)
    return {"type": "object"} if endpoint.formats == (Json(),) else {}


def _one_of(endpoint: Endpoint, versions: Versions, definitions_at: str) -> Fields:
    """Each version's definitions under its own name: two may have one of the same name."""
    kinds: list[Fields] = []
    definitions: Fields = {}
    for version in versions.shapes:
        contract = payload_contract(endpoint, version)
        assert contract is not None
        at = f"{definitions_at}{version}."
        schema = _named(contract.json_schema(at), at)
        its = schema.pop("$defs", {})
        definitions |= {f"{version}.{name}": definition for name, definition in its.items()}
        schema["title"] = f"version {version}"
        if isinstance(versions.by, ByField):
            schema = _with_version(schema, versions.by.name, version, versions.unnamed)
        kinds.append(schema)
    # what its content type tells apart, the bytes alone may not
    which = "oneOf" if isinstance(versions.by, ByField) else "anyOf"
    return {which: kinds, **({"$defs": definitions} if definitions else {})}


def _with_version(schema: Fields, name: str, version: str, unnamed: str | None) -> Fields:
    """A field that says it may be a text or a number."""
    said = [version, int(version)] if version.isdecimal() else [version]
    properties = schema.get("properties", {})
    fields = {**properties, name: {**properties.get(name, {}), "enum": said}}
    needed = list(dict.fromkeys([*schema.get("required", ()), name]))
    if version == unnamed and name not in schema.get("required", ()):
        needed.remove(name)
    return {**schema, "properties": fields, "required": needed}


def of_contract(shape: Any, definitions_at: str = "#/$defs/") -> Fields:
    """Any object where a row gives no contract."""
    if shape is None:
        return {"type": "object"}
    return _named(contract_of(shape).json_schema(definitions_at), definitions_at)


def _named(schema: Fields, definitions_at: str) -> Fields:
    if "$ref" in schema:  # of a shape that holds itself
        name = schema["$ref"].removeprefix(definitions_at)
        return {**schema["$defs"][name], "$defs": schema["$defs"]}
    return schema


def headers_of(always: Iterable[str], at_times: Iterable[str], ours: Mapping[str, Any]) -> Fields:
    known = {**_HEADERS, **ours}
    return object_of({n: known[n] for n in always}, {n: known[n] for n in at_times})


def row_of(says: str, *parts: Fields) -> Fields:
    """An array with just these parts."""
    length = {"minItems": len(parts), "maxItems": len(parts)}
    return {**ARRAY, "description": says, "prefixItems": [*parts], **length}


def map_of(values: Fields) -> Fields:
    return {"type": "object", "additionalProperties": values}


def object_of(always: Mapping[str, Any], at_times: Mapping[str, Any] | None = None) -> Fields:
    schema: Fields = {"type": "object", "properties": {**always, **(at_times or {})}}
    if always:
        schema["required"] = list(always)
    return schema
