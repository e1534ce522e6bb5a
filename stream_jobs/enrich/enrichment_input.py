"""A payload's bytes -> what its enrichment is given, held to the endpoint's contract. Pure."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from clients.kafka.records import Payload
from shared.contract import Breach, payload_contract, versions_of
from shared.events import envelope
from shared.formats import (
    Format,
    UndecodableError,
    UnknownSchemaError,
    UnknownVersionError,
    Versions,
    decoded,
)
from shared.lookups.registry import REGISTRY
from shared.model import Endpoint, Rejected
from shared.user_code import describe_error
from stream_jobs.enrich.breaches import LetPass, let_pass
from stream_jobs.enrich.known import Ask


def given(
    endpoint: Endpoint, payload: Payload, headers: Mapping[str, bytes], ask: Ask
) -> tuple[Any, LetPass | None]:
    """And how it breaks the contract, where the endpoint lets that pass. NotYet where the schema
    that it needs cannot be had now."""
    value = payload.value
    if not value:
        if stub := headers.get(envelope.STUB):
            raise Rejected("too_large", stub.decode(errors="backslashreplace"))
        raise Rejected("empty", "the record has no value")
    sent_sha256 = headers.get(envelope.PAYLOAD_SHA256)
    if sent_sha256 is not None and sha256(value).hexdigest().encode() != sent_sha256:
        raise Rejected("corrupt", "the bytes are not those that the gateway took (sha256 differs)")
    try:
        fields, form = _decoded(endpoint, value, headers, ask)
    except UndecodableError as error:
        raise Rejected(error.code, error.detail) from error
    if endpoint.payload is None:
        return fields, None
    version = None
    if versions := versions_of(endpoint):
        try:
            version = versions.of(fields, headers.get(envelope.CONTENT_TYPE))
        except UnknownVersionError as error:
            raise Rejected("unknown_version", str(error)) from error
    contract = payload_contract(endpoint, version)
    assert contract is not None
    found = contract.of_texts(fields) if form.is_text else contract.breach(fields)
    breach = found if isinstance(found, Breach) else None
    if breach and endpoint.contract_mode == "enforce":
        raise Rejected(breach.code, breach.detail)
    passed = breach and let_pass(breach, fields)
    if form.is_text and not breach:
        fields = found
    if versions and version:
        fields = _lifted(endpoint, versions, version, fields, breach)
    return fields, passed


def _decoded(
    endpoint: Endpoint, value: bytes, headers: Mapping[str, bytes], ask: Ask
) -> tuple[Any, Format]:
    media_type = headers.get(envelope.CONTENT_TYPE)
    encodings = headers.get(envelope.CONTENT_ENCODING)
    most = endpoint.decompressed_bytes_max
    try:
        return decoded(endpoint.formats, value, media_type, encodings, most)
    except UnknownSchemaError as unknown:
        found = ask(REGISTRY, str(unknown.schema_id))
        unknown.form.learn(unknown.schema_id, found.body)
        return decoded(endpoint.formats, value, media_type, encodings, most)


def _lifted(
    endpoint: Endpoint, versions: Versions, version: str, fields: Any, breach: Breach | None
) -> Any:
    upcasters = versions.upcasters_from(version)
    for upcaster in upcasters:
        try:
            fields = upcaster(fields)
        except Exception as error:  # an upcaster is a user's code
            detail = f"from version {version}: {describe_error(error, upcaster)}"
            if breach:  # which is why, most likely
                raise Rejected(
                    breach.code, f"{breach.detail}; let pass, and then {detail}"
                ) from error
            raise Rejected("upcaster_failed", detail) from error
    if upcasters and not breach and (contract := payload_contract(endpoint)):
        mistake = contract.breach(fields)
        if mistake:
            said = f"version {version} was lifted to what breaks version {versions.newest}"
            raise Rejected("upcaster_failed", f"{said}: {mistake.detail}")
    return fields
