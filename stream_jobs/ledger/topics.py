"""What Kafka knows for the ledger: where its topics end and how far jobs are, when places came, and
what was told of payloads in lanes. Every call raises KafkaException where no broker answers."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from clients.kafka.group_offsets import GroupOffsets
from shared.events import envelope
from shared.events.envelope import Position
from shared.published import ledger
from shared.published.ledger import Verdict
from shared.settings import Settings
from shared.topology import REPEAT_TOPIC, Flow

Partition = tuple[str, int]

_log = logging.getLogger(__name__)
_GROUP = "headrace-ledger"  # has to be there, is never joined
_TIMEOUT_S = 5.0
_RECORDS_AT_ONCE = 200  # dead letters hold whole payloads
_MINUTE_MS = 60_000
_NEW_PARTITIONS_S = 30.0


class Heard(NamedTuple):
    told: list[tuple[Position, int]]
    next: dict[Partition, int]  # where to go on
    all: bool


class LedgerLog:
    def __init__(self, settings: Settings, flow: Flow) -> None:
        self._lanes = ledger.lanes_of_payloads(flow)
        if flow.entities:
            self._lanes[REPEAT_TOPIC] = Verdict.KNOWN_REPEAT
        self._payloads = [endpoint.topic for endpoint in flow.endpoints]
        self._events = {
            "persist": [event_type.topic for event_type in flow.event_types],
            "fold": [*flow.folded_topics],
        }
        topics = {"enrich": self._payloads, **self._events}
        self._jobs = {job: GroupOffsets(settings, job, topics[job]) for job in topics}
        config = {
            **settings.kafka.for_reading(_GROUP),
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16 * 1024,
            "log_level": 0,
        }
        # one that only asks: on one that reads, too, each question would wait behind a fetch
        self._asking, self._reading = Consumer(config), Consumer(config)
        self._next: dict[Partition, int] = {}
        self._partitions: dict[str, list[int]] = {}
        self._look_again_s = 0.0

    def close(self) -> None:
        self._asking.close()
        self._reading.close()
        for job in self._jobs.values():
            job.close()

    def ends_of_payloads(self) -> dict[Partition, int]:
        return self._ends(self._payloads)

    def ends_of_events(self, job: str) -> dict[Partition, int]:
        return self._ends(self._events[job])

    def start_of(self, at: Partition) -> int:
        return self._asking.get_watermark_offsets(TopicPartition(*at), _TIMEOUT_S)[0]

    def progress(self, job: str) -> dict[Partition, int]:
        """What the job has done with, its output included."""
        offsets = self._jobs[job].committed().offsets
        return {(topic, p): offset for topic, ps in offsets.items() for p, offset in ps.items()}

    def first_at(self, at: Partition, minute: int) -> int | None:
        (found,) = self._asking.offsets_for_times(
            [TopicPartition(*at, minute * _MINUTE_MS)], _TIMEOUT_S
        )
        _refuse(found)
        return found.offset if found.offset >= 0 else None

    def go_on_from(self, known: Mapping[Partition, int]) -> None:
        # what was removed, because it is old, tells nothing any more
        lanes = self._ends(self._lanes)
        self._next = {at: max(known.get(at, 0), self.start_of(at)) for at in lanes}
        self._reading.assign([TopicPartition(*at, offset) for at, offset in self._next.items()])

    def hear(self, ends: Mapping[Partition, int]) -> Heard:
        """What the lanes tell, up to these ends or as much as fits into one go."""
        if ends.keys() - self._next.keys():
            self.go_on_from(self._next)
        told: list[tuple[Position, int]] = []
        while self._is_behind(ends) and len(told) < 10 * _RECORDS_AT_ONCE:
            records = self._reading.consume(_RECORDS_AT_ONCE, 1.0)
            if not records:
                break
            for record in records:
                if record.error() is not None:
                    raise KafkaException(record.error())
                position: Any = record.topic(), record.partition(), record.offset()
                told += self._read(record, Position(*position))
                self._next[position[:2]] = position[2] + 1
        return Heard(told, dict(self._next), not self._is_behind(ends))

    def ends_of_lanes(self) -> dict[Partition, int]:
        return self._ends(self._lanes)

    def _is_behind(self, ends: Mapping[Partition, int]) -> bool:
        return any(self._next.get(at, 0) < end for at, end in ends.items())

    def _read(self, record: Message, at: Position) -> Iterator[tuple[Position, int]]:
        verdict = self._lanes[at.topic]
        headers: Any = record.headers() or ()
        try:
            if verdict is Verdict.KNOWN_REPEAT:
                places = [*ledger.known_repeats(record.value() or b"")]
            else:
                places = [Position.parse(envelope.text(headers, envelope.ORIGIN) or "")]
        except ValueError as error:
            _log.warning("%s tells of no payload's place: %s", at, error)
            return
        yield from ((place, verdict) for place in places if place.topic in self._payloads)

    def _ends(self, topics: Iterable[str]) -> dict[Partition, int]:
        places = [
            TopicPartition(topic, partition, OFFSET_END)  # in the place of a time: the newest
            for topic in topics
            for partition in self._partitions_of(topic)
        ]
        found = self._asking.offsets_for_times(places, _TIMEOUT_S) if places else []
        for place in found:
            _refuse(place)
        return {(place.topic, place.partition): place.offset for place in found}

    def _partitions_of(self, topic: str) -> list[int]:
        if time.monotonic() >= self._look_again_s or topic not in self._partitions:
            topics = self._asking.list_topics(timeout=_TIMEOUT_S).topics
            self._partitions = {name: [*found.partitions] for name, found in topics.items()}
            self._look_again_s = time.monotonic() + _NEW_PARTITIONS_S
        return self._partitions.get(topic, [])


def _refuse(place: TopicPartition) -> None:
    if place.error is not None:
        raise KafkaException(place.error)
