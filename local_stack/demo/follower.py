"""Which payloads have come out where: read from the topics, from their ends at the start on."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.offsets import LogOffsets
from local_stack.machine.settings_check import kafka_at
from local_stack.servers.kafka import asking_kafka
from shared.consumer_groups import DEMO
from shared.events.envelope import ID, REASON
from shared.flow_table import Flow

_ANSWER_S = 10.0
_AT_ONCE = 2000
_POLL_S = 0.2


@dataclass
class PayloadFates:
    """Ids of payloads, by what has become of them."""

    events: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    parked: dict[str, str] = field(default_factory=dict)  # with the reason
    waiting: dict[str, str] = field(default_factory=dict)
    to_fold: dict[str, str] = field(default_factory=dict)  # with the entity


class Follower:
    """Blocks while it reads: for a thread."""

    def __init__(self, bootstrap: str, flow: Flow) -> None:
        self.seen = PayloadFates()
        self._bootstrap = bootstrap
        # what a webhook does not take is an event all the same
        jobs = [job for job in flow.jobs() if job.name != "forward"]
        self._to_fold = flow.folded_topics
        self._events = {*flow.event_topics}
        self._completions = {event_type.completion_topic for event_type in flow.event_types}
        self._parked = {lane for job in jobs for lane in job.parks_in}
        self._waiting = {lane for job in jobs for lane in job.waits_in}
        kafka = kafka_at(bootstrap)
        self._log = LogOffsets(kafka, DEMO, self.topics, _ANSWER_S)
        self._reader = reader(kafka, DEMO)

    @property
    def topics(self) -> Collection[str]:
        return self._events | self._completions | self._parked | self._waiting

    def begin(self) -> None:
        """What is written from now on counts."""
        with asking_kafka(self._bootstrap):
            ends = self._log.ends()
        self._reader.assign([TopicPartition(*at, end) for at, end in ends.items()])

    def read(self) -> list[Message]:
        """A broker that is away for a while is no error: the client connects again by itself."""
        return [record for record in self._reader.consume(_AT_ONCE, _POLL_S) if not record.error()]

    def note(self, record: Message) -> None:
        topic = record.topic()
        if topic in self._completions:
            self.seen.completed.add(_event_id(record))
            return
        headers: Any = record.headers() or []
        told = {name: value.decode(errors="replace") for name, value in headers if value}
        payload_id = told.get(ID, "")
        if topic in self._events:
            self.seen.events.add(payload_id)
            if topic in self._to_fold:
                self.seen.to_fold[payload_id] = (record.key() or b"").decode(errors="replace")
        elif topic in self._parked:
            self.seen.parked[payload_id] = told.get(REASON, "no reason")
        else:
            self.seen.waiting[payload_id] = told.get(REASON, "no reason")

    def close(self) -> None:
        self._log.close()
        self._reader.close()


def _event_id(completion: Message) -> str:
    value = completion.value()
    try:
        return str(json.loads(value or b"")["event_id"])
    except (ValueError, KeyError, TypeError):
        return ""
