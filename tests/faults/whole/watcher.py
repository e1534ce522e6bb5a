"""Follows the completions while they come: at the moment that one is seen its row is there."""

import contextlib
import json
import threading
import time

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.faults.whole import sample
from tests.faults.whole.rig import Rig

_QUERY = "SELECT event_id FROM headrace.event WHERE event_id = ANY(%s)"


class Watcher:
    def __init__(self, rig: Rig) -> None:
        self.violations: list[str] = []
        self.seen = 0
        self._rig = rig
        self._over = threading.Event()
        self._positions: dict[tuple[str, int], int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        if not self.seen:
            self.violations.append("nobody has seen a completion")

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(KafkaException, TypeError):  # the launcher is being killed
                self._follow(self._rig.launcher.status()["kafka_bootstrap"])
            time.sleep(0.3)

    def _follow(self, bootstrap: str) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watcher", "log_level": 0})
        known = consumer.list_topics(timeout=5).topics
        at = [(topic, p) for topic in sample.COMPLETIONS for p in known[topic].partitions]
        consumer.assign([TopicPartition(*p, self._positions.get(p, 0)) for p in at])
        while not self._over.is_set():
            told: dict[str, tuple[str, int]] = {}
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    place = message.topic() or "", message.partition() or 0
                    told[json.loads(message.value() or b"")["event_id"]] = place
                    self._positions[place] = (message.offset() or 0) + 1
            self._check(told)
        consumer.close()

    def _check(self, told: dict[str, tuple[str, int]]) -> None:
        while told:
            try:
                there = {row for (row,) in self._rig.rows(_QUERY, list(told))}
            except psycopg.OperationalError:  # it is hurt: what it says then is what counts
                time.sleep(0.3)
                continue
            self.violations += [f"a completion before its row: {e}" for e in told.keys() - there]
            self.seen += len(told)
            return
