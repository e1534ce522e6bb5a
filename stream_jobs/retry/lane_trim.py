"""The lane keeps what still waits, however long, and what is done for as long as payloads are kept.

Kafka can do neither: by a time it would remove both, so the topic has none, and retry removes what
is done. That is what stands before all that the open gates need and before `passed`, as a retry
that has lost its lines would begin. `passed` is read first: what it is behind is in a line whose
gate is open by then, or is done (R3, R5 of `waiting.protocol`).
"""

import logging
import time

from confluent_kafka import KafkaException, TopicPartition

from clients.kafka.connect import admin
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Partition, by_partition
from shared.consumer_groups import of_job
from shared.settings import JobSettings
from shared.topic_names import retry_topic
from stream_jobs.waiting.gate_view import first_needed

_log = logging.getLogger(__name__)
_ANSWER_S = 5.0


class LaneTrim:
    def __init__(self, settings: JobSettings, kept_ms: int) -> None:
        self._settings = settings
        self._kept_ms = kept_ms
        self._topic = retry_topic("enrich")
        self._lane = LogOffsets(settings.kafka, of_job("retry"), [self._topic])
        self._admin = admin(settings.kafka)

    def trim(self) -> None:
        """What cannot be removed now is removed another time."""
        done = self._done()
        begins = self._lane.begins(done.keys())
        places = [TopicPartition(*at, end) for at, end in done.items() if end > begins[at]]
        if not places:
            return
        for future in self._admin.delete_records(places, request_timeout=_ANSWER_S).values():
            try:
                future.result()
            except KafkaException as error:
                reason = error.args[0].str()
                _log.warning("%s keeps what is done with: %s", self._topic, reason)
                return

    def _done(self) -> dict[Partition, int]:
        passed = by_partition(self._lane.committed().offsets)  # first
        needed = first_needed(self._settings.kafka)
        old_ms = time.time_ns() // 1_000_000 - self._kept_ms
        kept_from = self._lane.since(dict.fromkeys(passed, old_ms))
        found = {}
        for (topic, partition), done in passed.items():
            young = kept_from[topic, partition]
            kept = done if young is None else young
            found[topic, partition] = min(done, needed.get(partition, done), kept)
        return found
