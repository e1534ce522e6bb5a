"""A payload's bytes -> what its enrichment is given, held to the endpoint's contract. Pure."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from clients.kafka.records import Payload
from shared.contract import Breach, payload_contract
from shared.events import envelope
from shared.formats import UndecodableError, decoded
from shared.model import Endpoint, Rejected


class Given(NamedTuple):
    fields: Any
    breach: Breach | None  # of the contract, where the endpoint lets it pass


def given(endpoint: Endpoint, payload: Payload, headers: Mapping[str, bytes]) -> Given:
    value = payload.value
    if not value:
        if stub := headers.get(envelope.STUB):
            raise Rejected("too_large", stub.decode(errors="backslashreplace"))
        raise Rejected("empty", "the record has no value")
    sent_sha256 = headers.get(envelope.PAYLOAD_SHA256)
    if sent_sha256 is not None and sha256(value).hexdigest().encode() != sent_sha256:
        raise Rejected("corrupt", "the bytes are not those that the gateway took (sha256 differs)")
    try:
        fields, form = decoded(
            endpoint.formats,
            value,
            headers.get(envelope.CONTENT_TYPE),
            headers.get(envelope.CONTENT_ENCODING),
            endpoint.decompressed_bytes_max,
        )
    except UndecodableError as error:
        raise Rejected(error.code, error.detail) from error
    contract = payload_contract(endpoint)
    if contract is None:
        return Given(fields, None)
    found = contract.of_texts(fields) if form.is_text else contract.breach(fields)
    if isinstance(found, Breach):
        if endpoint.contract_mode == "enforce":
            raise Rejected(found.code, found.detail)
        return Given(fields, found)
    return Given(found if form.is_text else fields, None)
