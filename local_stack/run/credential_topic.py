"""Writes credentials to their topic, and reads those that stand there."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from gateway.auth.credentials import Credential, from_record, to_record
from local_stack.machine.settings_check import kafka_client
from local_stack.run.tail_topic import all_records
from local_stack.terminal.errors import LOOK, StackError
from shared.timestamps import to_rfc3339
from shared.topology import CREDENTIAL_TOPIC

_ACK_S = 15.0
COLUMNS = ("key_id", "kind", "role", "tenant", "device", "made", "not_after")


def write(bootstrap: str, key_id: str, credential: Credential | None) -> None:
    """None revokes it."""
    value = None if credential is None else to_record(credential)
    outcome: list[KafkaError | None] = []
    producer = Producer(
        {
            **kafka_client(bootstrap),
            "acks": "all",
            "enable.idempotence": True,
            # one key, one partition, whoever writes
            "partitioner": "murmur2_random",
            "message.timeout.ms": int(_ACK_S * 1000),
            "log_level": 0,
        }
    )

    def note(error: KafkaError | None, _: Message) -> None:
        outcome.append(error)

    with _told(bootstrap):
        producer.produce(CREDENTIAL_TOPIC, value, key_id, on_delivery=note)
        producer.flush(_ACK_S + 1)
        if not outcome or outcome[0] is not None:
            raise KafkaException(outcome[0] if outcome else KafkaError(KafkaError._TIMED_OUT))


def read(bootstrap: str) -> dict[str, Credential | None]:
    """By key id; None where the record is no credential and lets nobody in."""
    found: dict[str, Credential | None] = {}
    for record in all_records(bootstrap, CREDENTIAL_TOPIC):
        key, value = record.key(), record.value()
        key_id = str(key.decode(errors="replace") if isinstance(key, bytes) else key)
        if value is None:
            found.pop(key_id, None)
        else:
            found[key_id] = _credential(value if isinstance(value, bytes) else value.encode())
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


def _credential(value: bytes) -> Credential | None:
    try:
        return from_record(value)
    except ValueError:
        return None


@contextmanager
def _told(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        reason = error.args[0].str()
        raise StackError(f"Kafka at {bootstrap} did not take it: {reason}", LOOK) from error
