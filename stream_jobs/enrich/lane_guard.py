"""A flow that has lost its last `retry` and `master` has no job that would do what still waits in
its lane: enrich does not start with it."""

import logging

from confluent_kafka import KafkaError, KafkaException

from clients.kafka.follow import whole_log
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets
from shared.consumer_groups import GATES, of_job
from shared.errors import LaneLeftError
from shared.flow_table import Flow
from shared.kafka_access import KafkaAccess
from shared.settings import JobSettings
from shared.topic_names import gate_topic, retry_topic
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.waiting.line_key import entity_of
from stream_jobs.waiting.protocol import ENRICH

_log = logging.getLogger(__name__)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


class LaneGuard(DriverTask):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._kafka = settings.kafka
        self._flow = flow

    def start(self) -> Offsets | None:
        if not self._flow.waits:
            refuse_what_waits(self._kafka)
        return None


def refuse_what_waits(kafka: KafkaAccess) -> None:
    """LaneLeftError where anything does."""
    try:
        entities = _whose(kafka)
        something_waits = bool(entities) or _is_unread(kafka)
    except KafkaException as error:
        if error.args[0].code() not in _FORBIDDEN:
            raise
        _log.warning("it is not known whether anything waits: ./headrace acls: %s", error.args[0])
        return
    if something_waits:
        named = f", of {', '.join(sorted(entities)[:5])}" if entities else ""
        raise LaneLeftError(
            f"payloads wait in {retry_topic(ENRICH)}{named}, and no row of this flow has `retry` "
            "or `master` any more, so nothing would ever do them: start the former flow again "
            "until ./headrace waiting list --stage enrich is empty, or give them up there"
        )


def _whose(kafka: KafkaAccess) -> set[str]:
    found: dict[bytes, bytes | None] = {}
    for message in whole_log(kafka, GATES, [gate_topic(ENRICH)]):
        found[message.key() or b""] = message.value()
    keys = (key.decode(errors="replace") for key, value in found.items() if value is not None)
    return {entity_of(key) for key in keys}


def _is_unread(kafka: KafkaAccess) -> bool:
    """Whether retry has still to read it, which then tells of it by its gates. Nobody knows where
    Kafka has forgotten how far it was, as it does when nobody has committed for days: what is done
    is still in the lane, which retry alone trims."""
    group = of_job("retry")
    with LogOffsets(kafka, group, [retry_topic(ENRICH)]) as lane:
        passed, ranges = lane.known_positions(), lane.ranges()
    if any(log.start < log.end for at, log in ranges.items() if at not in passed):
        _log.warning(
            "it is not known whether all in %s is done: group %s has no offset there, or Kafka has "
            "dropped it; nothing that retry has told of waits",
            retry_topic(ENRICH),
            group,
        )
    known = {at: log for at, log in ranges.items() if at in passed}
    return any(max(passed[at], log.start) < log.end for at, log in known.items())
