"""Keeps the tail of the event topics in memory, as long as somebody asks for it.

The tail begins where the view's snapshots end: fold's committed offsets are read first, then where
the state topics end, and when the view has come that far, it has whatever fold had done until
there. Only then are the events before those offsets forgotten.
"""

import logging
import threading
import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import is_end, position_of
from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from clients.kafka.records import Partition
from gateway.kafka_writer.partition_of_key import partition_of
from gateway.state.event_tail import Tail, TailRecord
from gateway.state_view.reader import StateView
from shared.consumer_groups import VIEW, of_job
from shared.flow_table import Flow
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_OPTIONS = {"fetch.wait.max.ms": 50, "queued.max.messages.kbytes": 8192}
_LET_GO_AFTER_S = 60.0  # without a question
_AGAIN_AFTER_S = 1.0
_LOOK_EVERY_S = 0.2
_ANSWER_S = 2.0
_SILENT_MAX_S = 3.0  # what was heard longer ago is no longer "now"
_RECORDS_AT_ONCE = 200  # then others may run: the loop has the interpreter with this thread
_READING = "the events are being read"


class NotFresh(Exception):  # noqa: N818 - it is an answer
    """Why the tail is not known now."""


class _Look(NamedTuple):
    """Once the view has read the state topics to `ends`, it has all that fold did to `folded`."""

    folded: dict[Partition, int]
    ends: dict[Partition, int]


class TailFollower:
    def __init__(self, settings: GatewaySettings, flow: Flow) -> None:
        self.tail = Tail()
        self._kafka = settings.kafka
        self._state_dir = settings.state_dir
        self._event_topics = flow.folded_topics
        self._state_topics = [entity.topic for entity in flow.entities]
        self._is_divided = settings.state_copies > 0
        self._partitions: dict[str, int] = {}
        self._covered: frozenset[Partition] = frozenset()
        self._bytes_max = settings.fresh_tail_bytes_max
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._asked_at_s = self._heard_at_s = 0.0
        self._why_not = _READING

    async def start(self) -> None:
        """Begins with the first question: nobody pays for what nobody asks."""

    async def stop(self) -> None:
        self._ends.set()

    def ask(self) -> str | None:
        """None: the tail is known. Otherwise why it is not, and it is being seen to."""
        self._asked_at_s = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            self._why_not = _READING
            self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
            self._thread.start()
        if not self._why_not and self._asked_at_s - self._heard_at_s > _SILENT_MAX_S:
            return "Kafka does not answer"
        return self._why_not or None

    def covers(self, topic: str, key: bytes) -> bool:
        """Whether the tail goes on where this gateway's own snapshot of that key ends."""
        if not self._is_divided:
            return True
        partitions = self._partitions.get(topic, 0)
        return partitions > 0 and (topic, partition_of(key, partitions)) in self._covered

    def _run(self) -> None:
        while self._is_wanted():
            try:
                self._follow()
            except NotFresh as not_fresh:
                self._why_not = str(not_fresh)
            except KafkaException as error:
                self._why_not = f"Kafka does not answer: {error}"
            except Exception:
                self._why_not = "a fault in reading its events"
                log.exception("the tail of the event topics cannot be followed, trying again")
            finally:
                self._why_not = self._why_not or _READING  # before nothing is there any more
                self.tail.clear()
            self._ends.wait(_AGAIN_AFTER_S)

    def _is_wanted(self) -> bool:
        asked_ago_s = time.monotonic() - self._asked_at_s
        return not self._ends.is_set() and asked_ago_s < _LET_GO_AFTER_S

    def _follow(self) -> None:
        view = StateView(self._state_dir)
        log = LogOffsets(self._kafka, of_job("fold"), self._event_topics, _ANSWER_S, ANSWERS_SOON)
        reading = reader(self._kafka, VIEW, _OPTIONS)
        try:
            events, states = log.partitions(), log.partitions(self._state_topics)
            look = self._look(log, events, states)
            if self._is_divided:
                self._partitions, self._covered = view.divided(), frozenset(self._known(view))
            begins = _begins(look.folded, log.begins(events))
            reading.assign([TopicPartition(*at, offset) for at, offset in begins.items()])
            missing = set(events)
            while missing and self._is_wanted():
                missing -= self._read(reading)
            while not self._has_come_to(view, look):
                self._read(reading)
            self._why_not = ""
            pending: _Look | None = None
            due_s = 0.0
            while self._is_wanted():
                self._read(reading)
                if pending is None and time.monotonic() >= due_s:
                    due_s = time.monotonic() + _LOOK_EVERY_S
                    pending = self._look(log, events, states)
                if pending is not None and self._has_come_to(view, pending):
                    self.tail.forget_before(pending.folded)
                    pending = None
        finally:
            reading.close()
            log.close()
            view.close()

    def _look(self, log: LogOffsets, events: list[Partition], states: list[Partition]) -> _Look:
        found = _Look(log.known_positions(events), log.ends(states))
        self._heard_at_s = time.monotonic()
        return found

    def _has_come_to(self, view: StateView, look: _Look) -> bool:
        if not self._is_wanted():
            raise NotFresh("nobody asks")
        known = self._known(view)
        if self._is_divided and known.keys() != self._covered:
            raise NotFresh("its states are being divided anew among gateways")
        its = self._covered if self._is_divided else look.ends.keys()
        return all(known.get(at, 0) >= look.ends.get(at, 0) for at in its)

    def _known(self, view: StateView) -> dict[Partition, int]:
        return {
            (topic, partition): offset
            for topic in self._state_topics
            for partition, offset in view.read_to(topic).items()
        }

    def _read(self, reading: Consumer) -> set[Partition]:
        """Those that were read to their ends."""
        at_end: set[Partition] = set()
        for message in reading.consume(_RECORDS_AT_ONCE, 0.02):
            position = position_of(message)
            if is_end(message):
                at_end.add(position[:2])
            elif (key := message.key()) is not None:
                record = TailRecord(position, message.value() or b"", message.timestamp()[1])
                self.tail.put(key, record)
        if self.tail.bytes > self._bytes_max:
            raise NotFresh("fold is far behind: more events wait for it than are kept here")
        return at_end


def _begins(folded: dict[Partition, int], oldest: dict[Partition, int]) -> dict[Partition, int]:
    """Where fold goes on. A log of which it has done nothing may have lost its oldest events."""
    for at, offset in folded.items():
        if offset < oldest.get(at, 0):
            topic, partition = at
            raise NotFresh(
                f"events of {topic}, partition {partition}, were deleted before fold had done them"
            )
    return oldest | folded
