"""Credentials stand on a topic of their own, which the gateways follow; this is how one is written
there, and how all are read."""

from clients.kafka.connect import answering
from clients.kafka.follow import whole_log
from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from gateway.auth.credentials import Credential, from_record, to_record
from shared.consumer_groups import DESK
from shared.kafka_access import KafkaAccess
from shared.topic_names import CREDENTIAL_TOPIC

_READ_S = 30.0


def write(kafka: KafkaAccess, key_id: str, credential: Credential | None) -> None:
    """None revokes it. KafkaAwayError unless Kafka has it."""
    value = None if credential is None else to_record(credential)
    write_now(kafka, Outgoing(CREDENTIAL_TOPIC, key_id.encode(), value, []))


def read(kafka: KafkaAccess) -> dict[str, Credential | None]:
    """The credentials by key id; None where the record is no credential and lets nobody in."""
    found: dict[str, Credential | None] = {}
    with answering(kafka):
        for message in whole_log(kafka, DESK, [CREDENTIAL_TOPIC], _READ_S):
            key_id, value = (message.key() or b"").decode(errors="replace"), message.value()
            if value is None:
                found.pop(key_id, None)
                continue
            try:
                found[key_id] = from_record(value)
            except ValueError:
                found[key_id] = None
    return found
