"""Answers fold: folds single entities anew from the event log, beside the job, as it asks for them.

All that is asked for at the same time is one reading of the log. What is asked for stands on a
compacted topic until fold has taken the answer, so whoever starts anew answers what is open; an
answer that fold no longer waits for changes nothing.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from clients.kafka.follow import LogFollower
from clients.kafka.read_range import WholeTopics
from clients.kafka.records import Outgoing
from clients.kafka.write import publish
from shared.consumer_groups import of_job
from shared.events.envelope import EventRecord
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.folding import refolding
from shared.folding.applier import Applier
from shared.folding.code_fingerprint import entity_fingerprint
from shared.folding.refolding import Request
from shared.settings import JobSettings
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC

_log = logging.getLogger(__name__)
_GROUP = of_job("fold")  # which fold may ask for
_AGAIN_AFTER_S = 2.0
_ENTITIES_AT_ONCE = 500  # all their events are in memory


def run(settings: JobSettings, flow: Flow, is_over: threading.Event) -> None:
    while not is_over.is_set():
        try:
            with closing(Requests(settings)) as requests:
                while not is_over.is_set():
                    asked = requests.asked()
                    if asked:
                        Refolder(settings, flow, is_over.is_set).answer(asked)
                        requests.forget(asked)
        except Exception as error:  # whatever it is, fold goes on, and what is open stays open
            _log.warning("entities could not be folded anew, trying again: %s", error)
        is_over.wait(_AGAIN_AFTER_S)


class Requests:
    """KafkaException where the broker does not answer."""

    def __init__(self, settings: JobSettings) -> None:
        self._open: dict[bytes, bytes] = {}
        self._log = LogFollower(settings.kafka, _GROUP, [REFOLD_TOPIC])

    def asked(self) -> dict[bytes, Request]:
        """What is open, as soon as no more comes."""
        self._log.go_on_from({})
        while messages := list(self._log.take(1_000, 0.2)):
            for message in messages:
                self._note(message.key(), message.value())
        asked = {}
        for key, value in self._open.items():
            try:
                asked[key] = refolding.read_request(value)
            except ValueError as error:
                _log.warning("%r asks for nothing that can be folded anew: %s", key, error)
        return asked

    def _note(self, key: Any, value: Any) -> None:
        if value is None:
            self._open.pop(key, None)
        else:
            self._open[key] = value

    def forget(self, answered: Mapping[bytes, Request]) -> None:
        for key in answered:
            self._open.pop(key, None)

    def close(self) -> None:
        self._log.close()


class Refolder:
    def __init__(
        self, settings: JobSettings, flow: Flow, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_over`: the job pauses, and nothing more may be answered."""
        self._settings = settings
        self._is_over = is_over
        self._events = EventReader.of(flow)
        types = {row.name: row for row in flow.event_types}
        self._entities = {row.name: row for row in flow.entities}
        self._appliers = {
            row.name: Applier(row, settings.id_ring_size, types, flow.actions_of(row.name))
            for row in flow.entities
        }

    def answer(self, asked: Mapping[bytes, Request]) -> None:
        requests = [request for request in asked.values() if request.entity in self._entities]
        for begin in range(0, len(requests), _ENTITIES_AT_ONCE):
            began_s = time.monotonic()
            some = requests[begin : begin + _ENTITIES_AT_ONCE]
            publish(self._settings.kafka, self._answers(some))
            took_s = time.monotonic() - began_s
            _log.info("%d entities were folded anew in %.1f s", len(some), took_s)

    def _answers(self, requests: Sequence[Request]) -> Iterator[Outgoing]:
        logs = self._logs(requests)
        for request in requests:
            applier = self._appliers[request.entity]
            log = logs.pop((request.entity, request.id), [])
            answer = refolding.refold(applier, request, log)
            value = refolding.answer_value(answer, entity_fingerprint(applier.entity))
            yield Outgoing(REFOLDED_TOPIC, request.id.encode(), value, [])

    def _logs(self, requests: Sequence[Request]) -> dict[tuple[str, str], list[EventRecord]]:
        ends: dict[tuple[str, int], int] = {}
        by_id: dict[bytes, list[Request]] = defaultdict(list)
        for request in requests:
            by_id[request.id.encode()].append(request)
            for log, offset in request.positions.items():
                topic, _, partition = log.rpartition("/")
                at = topic, int(partition)
                ends[at] = max(offset, ends.get(at, -1))
        topics = {topic for topic, _ in ends}.intersection(self._events.types)
        found: dict[tuple[str, str], list[EventRecord]] = defaultdict(list)
        for position, key, value, *_ in WholeTopics(
            self._settings.kafka, _GROUP, topics, ends
        ).read():
            if self._is_over():
                raise InterruptedError("the job pauses")
            log = f"{position.topic}/{position.partition}"
            for request in by_id.get(key or b"", ()):
                if position.offset > request.positions.get(log, -1):
                    continue
                try:
                    record = self._events.read(position, key, value or b"")
                except NoEvent:
                    continue  # fold parked it
                if record.type in self._entities[request.entity].reads:
                    found[request.entity, request.id].append(record)
        return found
