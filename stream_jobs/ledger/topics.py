"""What Kafka knows for the ledger: where its topics end and how far jobs are, when places came, and
what was told of payloads in lanes. Every call raises KafkaException where no broker answers."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Message

from clients.kafka.follow import LogFollower
from clients.kafka.messages import position_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Partition, by_partition
from shared.consumer_groups import LEDGER, of_job
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.published import ledger
from shared.published.ledger import Verdict
from shared.settings import Settings
from shared.topic_names import REPEAT_TOPIC
from stream_jobs.persist.fitness import can_be_indexed

_log = logging.getLogger(__name__)
_RECORDS_AT_ONCE = 200  # dead letters hold whole payloads
_MINUTE_MS = 60_000


class Heard(NamedTuple):
    told: list[tuple[Position, int]]
    known_parts: list[tuple[Position, str]]  # repeats that fold knew, of payloads of several events
    next: dict[Partition, int]  # where to go on
    all: bool


class LedgerLog:
    def __init__(self, settings: Settings, flow: Flow) -> None:
        self._lanes = ledger.lanes_of_payloads(flow)
        if flow.entities:
            self._lanes[REPEAT_TOPIC] = Verdict.KNOWN_REPEAT
        self._payloads = [*flow.ingest_topics]
        topics = {
            "enrich": self._payloads,
            "persist": [*flow.event_topics],
            "fold": [*flow.folded_topics],
        }
        self._jobs = {
            job: LogOffsets(settings.kafka, of_job(job), its) for job, its in topics.items()
        }
        self._asking = LogOffsets(settings.kafka, LEDGER, self._payloads)
        self._reading = LogFollower(settings.kafka, LEDGER, [*self._lanes])

    def close(self) -> None:
        self._reading.close()
        for log in (self._asking, *self._jobs.values()):
            log.close()

    def ends_of_payloads(self) -> dict[Partition, int]:
        return self._asking.ends()

    def ends_of_events(self, job: str) -> dict[Partition, int]:
        return self._jobs[job].ends()

    def ends_of_lanes(self) -> dict[Partition, int]:
        return self._reading.ends()

    def start_of(self, at: Partition) -> int:
        return self._asking.begins([at])[at]

    def progress(self, job: str) -> dict[Partition, int]:
        """What the job has done with, its output included."""
        return by_partition(self._jobs[job].committed().offsets)

    def first_at(self, at: Partition, minute: int) -> int | None:
        return self._asking.since({at: minute * _MINUTE_MS})[at]

    def go_on_from(self, known: Mapping[Partition, int]) -> None:
        self._reading.start_from(known)

    def hear(self, ends: Mapping[Partition, int]) -> Heard:
        """What the lanes tell, up to these ends or as much as fits into one go."""
        self._reading.go_on_from({})
        told: list[tuple[Position, int]] = []
        parts: list[tuple[Position, str]] = []
        while self._reading.is_behind(ends) and len(told) < 10 * _RECORDS_AT_ONCE:
            records = list(self._reading.take(_RECORDS_AT_ONCE, 1.0))
            if not records:
                break
            for record in records:
                for place, event_id, verdict in self._read(record, position_of(record)):
                    told.append((place, verdict))
                    if event_id is not None and can_be_indexed(event_id):
                        parts.append((place, event_id))
        return Heard(told, parts, dict(self._reading.next), not self._reading.is_behind(ends))

    def _read(self, record: Message, at: Position) -> Iterator[tuple[Position, str | None, int]]:
        verdict = self._lanes[at.topic]
        headers: Any = record.headers() or ()
        try:
            if verdict is Verdict.KNOWN_REPEAT:
                places = [*ledger.known_repeats(record.value() or b"")]
            else:
                places = [(Position.parse(envelope.text(headers, envelope.ORIGIN) or ""), None)]
        except ValueError as error:
            _log.warning("%s tells of no payload's place: %s", at, error)
            return
        for place, event_id in places:
            if place.topic in self._payloads:
                yield place, event_id, verdict
