"""The lane keeps what still waits, however long, and what is done for as long as payloads are kept.

Kafka can do neither: by a time it would remove both, so the topic has none, and retry removes what
is done. That is what stands before all that the open gates need and before `passed`, as a retry
that has lost its lines would begin. `passed` is read first: what it is behind is in a line whose
gate is open by then, or is done (R3, R5 of `waiting.protocol`).
"""

import logging
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from clients.kafka.group_offsets import GroupOffsets
from shared.settings import JobSettings
from shared.topology import retry_topic
from stream_jobs.waiting.gate_view import first_needed

_log = logging.getLogger(__name__)
_ANSWER_S = 5.0


class LaneTrim:
    def __init__(self, settings: JobSettings, kept_ms: int) -> None:
        self._settings = settings
        self._kept_ms = kept_ms
        self._topic = retry_topic("enrich")
        self._lane = GroupOffsets(settings, "retry", [self._topic])
        config = {**settings.kafka.for_reading("headrace-gates"), "log_level": 2}
        self._asking = Consumer(config)
        self._admin = AdminClient({**settings.kafka.for_librdkafka(), "log_level": 2})

    def trim(self) -> None:
        """What cannot be removed now is removed another time."""
        ends = {}
        for partition, end in self._done().items():
            begins, _ = self._asking.get_watermark_offsets(
                TopicPartition(self._topic, partition), _ANSWER_S
            )
            if end > begins:
                ends[partition] = end
        if not ends:
            return
        places = [TopicPartition(self._topic, partition, end) for partition, end in ends.items()]
        for future in self._admin.delete_records(places, request_timeout=_ANSWER_S).values():
            try:
                future.result()
            except KafkaException as error:
                reason = error.args[0].str()
                _log.warning("%s keeps what is done with: %s", self._topic, reason)
                return

    def _done(self) -> dict[int, int]:
        passed = self._lane.committed().offsets.get(self._topic, {})  # first
        needed = first_needed(self._settings.kafka)
        old_ms = time.time_ns() // 1_000_000 - self._kept_ms
        places = [TopicPartition(self._topic, partition, old_ms) for partition in passed]
        found = self._asking.offsets_for_times(places, _ANSWER_S) if places else []
        # -1: nothing is younger
        kept_from = {at.partition: at.offset for at in found if at.offset >= 0}
        return {
            partition: min(at, needed.get(partition, at), kept_from.get(partition, at))
            for partition, at in passed.items()
        }
