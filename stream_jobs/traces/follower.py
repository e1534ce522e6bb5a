"""Follows the topics for traces, in the relay's process, beside what it does."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import KafkaException

from clients.kafka.follow import LogFollower
from clients.kafka.messages import record_of
from clients.kafka.records import Record
from shared.consumer_groups import TRACES
from shared.flow import load_flow
from shared.settings import JobSettings
from stream_jobs.traces.collector import Collector
from stream_jobs.traces.span import Span
from stream_jobs.traces.way import Way, by_time

_log = logging.getLogger(__name__)
_AT_ONCE, _WAITS_S = 2_000, 0.2
_SETTLED_S = 1.0  # so long a topic may be read behind another one
_LOOK_FOR_PARTITIONS_S = 30.0
_AGAIN_S = 2.0


def start(settings: JobSettings, stop: threading.Event, leads: Callable[[], bool]) -> None:
    """Nothing where no collector is named. Of several relays the one that `leads` tells."""
    if settings.otlp_endpoint is not None:
        run = Follower(settings, str(settings.otlp_endpoint), leads).run
        threading.Thread(target=run, args=(stop,), name="traces", daemon=True).start()


class Follower:
    def __init__(self, settings: JobSettings, collector: str, leads: Callable[[], bool]) -> None:
        self._kafka = settings.kafka
        self._way = Way(load_flow(settings.flow))
        self._collector = Collector(collector)
        self._leads = leads
        self._unsettled: deque[tuple[float, Record]] = deque()

    def run(self, stop: threading.Event) -> None:
        """From the ends of the topics on: a trace is of what happens, not of what has happened."""
        while not stop.is_set():
            try:
                self._follow(stop)
            except KafkaException as error:
                _log.warning("traces wait: Kafka: %s", error.args[0].str())
            except Exception:
                _log.exception("traces could not be followed, beginning again")
            self._unsettled.clear()
            stop.wait(_AGAIN_S)
        self._collector.close()

    def _follow(self, stop: threading.Event) -> None:
        log = LogFollower(self._kafka, TRACES, self._way.topics)
        try:
            log.start_from(log.ends())
            look_s = time.monotonic() + _LOOK_FOR_PARTITIONS_S
            while not stop.is_set():
                now_s = time.monotonic()
                found = log.take(_AT_ONCE, _WAITS_S)
                self._unsettled += ((now_s, record_of(message)) for message in found)
                spans = self._told(now_s - _SETTLED_S)
                if spans and self._leads():
                    self._collector.take(spans)
                if now_s >= look_s:
                    look_s = now_s + _LOOK_FOR_PARTITIONS_S
                    log.go_on_from({})
        finally:
            log.close()

    def _told(self, until_s: float) -> list[Span]:
        settled = []
        while self._unsettled and self._unsettled[0][0] <= until_s:
            settled.append(self._unsettled.popleft()[1])
        return [span for record in by_time(settled) for span in self._way.hear(record)]
