"""Writes credentials to their topic, and reads those that stand there."""

from clients.kafka.records import Outgoing
from clients.kafka.write import AckedWriter, for_at_most
from gateway.auth.credentials import Credential, from_record, to_record
from local_stack.machine.settings_check import kafka_at
from local_stack.run.tail_topic import all_records
from local_stack.terminal.errors import LOOK, StackError
from shared.timestamps import to_rfc3339
from shared.topic_names import CREDENTIAL_TOPIC

_ACK_S = 15.0
COLUMNS = ("key_id", "kind", "role", "tenant", "device", "made", "not_after")


def write(bootstrap: str, key_id: str, credential: Credential | None) -> None:
    """None revokes it."""
    value = None if credential is None else to_record(credential)
    record = Outgoing(CREDENTIAL_TOPIC, key_id.encode(), value, [])
    kafka = kafka_at(bootstrap)
    refusals = AckedWriter(kafka).send([record], for_at_most(_ACK_S))
    if refusals:
        raise StackError(f"Kafka at {bootstrap} did not take it: {refusals[0]}", LOOK)


def read(bootstrap: str) -> dict[str, Credential | None]:
    """By key id; None where the record is no credential and lets nobody in."""
    found: dict[str, Credential | None] = {}
    for record in all_records(bootstrap, CREDENTIAL_TOPIC):
        key_id = "None" if record.key is None else record.key.decode(errors="replace")
        if record.value is None:
            found.pop(key_id, None)
        else:
            try:
                found[key_id] = from_record(record.value)
            except ValueError:
                found[key_id] = None
    return found


def as_row(key_id: str, credential: Credential | None) -> dict[str, object]:
    if credential is None:
        return {**dict.fromkeys(COLUMNS, "?"), "key_id": key_id}
    caller, until = credential.caller, credential.not_after_ms
    return {
        "key_id": key_id,
        "kind": credential.kind,
        "role": caller.role,
        "tenant": "(all)" if caller.all_tenants else caller.tenant or None,
        "device": caller.device,
        "made": to_rfc3339(credential.made_ms),
        "not_after": None if until is None else to_rfc3339(until),
    }
