"""`python -m gateway.view.writer`: state topics -> the view on disk.

Its own process, so that a rebuild takes no time from POSTs. One per state folder: a second one
waits for the lock and takes over when the first is gone.
"""

import contextlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Collection

import orjson
from confluent_kafka import Message

from clients.kafka.messages import position_of
from clients.kafka.records import Partition
from gateway.node.parent_process import leave_with_parent, only_writer
from gateway.view.records import Changes, DamagedError, Row
from gateway.view.store import ViewStore, is_damaged, remove, view_path
from gateway.view.topics import TopicFacts, ViewSource, reached_end
from shared.flow import load_flow
from shared.folding.snapshot import META
from shared.kafka_access import KafkaAwayError
from shared.machine.parent_process import die_with_parent
from shared.settings import GatewaySettings
from shared.tables.indexed_fields import indexed_states
from shared.timestamps import is_time_ms
from shared.topic_names import CREDENTIAL_TOPIC, JOB_STATUS_TOPIC

log = logging.getLogger("gateway.view.writer")

_LOOK_AT_TOPICS_EVERY_S = 5.0
_LOOK_AT_ENDS_EVERY_S = 0.5
_WAIT_S = 0.25
# A deletion can be seen for a day (delete.retention.ms). Who was away for longer starts again.
_AWAY_MAX_MS = 20 * 3600 * 1000
_VERSION_END = 1 << 63
_NO_SNAPSHOTS = (JOB_STATUS_TOPIC, CREDENTIAL_TOPIC)  # the last record of a key counts


class ViewWriter:
    def __init__(self, store: ViewStore, source: ViewSource, topics: Collection[str]) -> None:
        self._store = store
        self._source = source
        self._topics = topics
        self._positions: dict[Partition, int] = {}
        self._goals: dict[Partition, int] = {}
        self._goal_ms = 0
        self._topics_due_s = 0.0
        self._ends_due_s = 0.0
        self._away = False

    def step(self) -> None:
        """Reads and writes one batch; looks at topics and ends when it is time."""
        try:
            self._look()
        except KafkaAwayError as away:
            self._say_away(away)
            self.look_again()
            # not less often than Kafka is looked at anyway: the consumer reconnects by itself
            self._ends_due_s = time.monotonic() + _LOOK_AT_ENDS_EVERY_S
        is_indexing = self._store.index_more()
        messages = self._source.take(0 if is_indexing else _WAIT_S)
        if messages:
            changes = to_changes(messages)
            self._store.apply(changes)
            self._positions |= changes.positions
        self._notice_caught_up()

    def _look(self) -> None:
        if time.monotonic() >= self._topics_due_s:
            self._topics_due_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
            self._look_at_topics()
        if not self._goals and time.monotonic() >= self._ends_due_s:
            self._set_goals()
            self._say_away(None)

    def look_again(self) -> None:
        self._topics_due_s = min(self._topics_due_s, time.monotonic() + _WAIT_S)

    def _look_at_topics(self) -> None:
        if not self._store.is_there():
            raise DamagedError("a reader has found a row that is not what was written")
        facts = self._source.facts(self._topics)
        positions: dict[Partition, int] = {}
        known = self._store.topic_ids()
        for topic, fact in facts.items():
            stored = self._store.positions(topic)
            why = _mismatch(known.get(topic), stored, fact, self._store.caught_up_ms(topic))
            if why:
                log.info("reading %s from its start: %s", topic, why)
                self._store.begin_topic(topic, fact.topic_id)
                stored = {}
                self._positions = {at: o for at, o in self._positions.items() if at[0] != topic}
            for p, start in fact.starts.items():
                positions[topic, p] = stored.get(p, start)
        if positions.keys() != self._positions.keys():
            self._source.follow(positions)
            self._positions = positions
            self._goals = {}
            self._ends_due_s = 0.0

    def _set_goals(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._goals = self._source.ends(self._positions)
        self._goal_ms = now_ms
        self._ends_due_s = time.monotonic() + _LOOK_AT_ENDS_EVERY_S

    def _notice_caught_up(self) -> None:
        """Whoever has passed the ends as of a moment was caught up at that moment."""
        behind = {t for (t, p), end in self._goals.items() if self._positions.get((t, p), 0) < end}
        reached = {topic for topic, _ in self._goals} - behind
        if reached:
            self._store.caught_up(reached, self._goal_ms)
            self._goals = {at: end for at, end in self._goals.items() if at[0] in behind}

    def _say_away(self, away: KafkaAwayError | None) -> None:
        if (away is not None) != self._away:
            self._away = away is not None
            log.warning("Kafka is away: %s", away) if away else log.info("Kafka is back")


def to_changes(messages: list[Message]) -> Changes:
    changes = Changes()
    for message in messages:
        if reached_end(message):
            topic, partition, offset = position_of(message)
            changes.positions[topic, partition] = offset
        elif message.error() is None:
            topic, partition, offset = position_of(message)
            changes.positions[topic, partition] = offset + 1
            _take(changes, message, topic, partition, offset)
    return changes


def _take(changes: Changes, message: Message, topic: str, partition: int, offset: int) -> None:
    key, value = message.key(), message.value()
    if key is None:
        changes.skip(topic)
    elif value is None:
        changes.delete(topic, key)
    else:
        try:
            version = None if topic in _NO_SNAPSHOTS else _version(value)
        except (ValueError, KeyError, TypeError, AttributeError):
            changes.skip(topic)
            return
        _, timestamp_ms = message.timestamp()
        changes.put(Row(topic, key, value, version, timestamp_ms, partition, offset))


def _version(value: bytes) -> int:
    """ValueError, KeyError or TypeError where it is no snapshot that SQLite can hold and /state
    can show: anyone may have written it, and the writer would meet it again after each restart."""
    meta = orjson.loads(value)[META]
    version, event_time_ms = meta["version"], meta.get("event_time_ms")
    if type(version) is not int or abs(version) >= _VERSION_END:
        raise ValueError("the version is no whole number of 64 bits")
    if event_time_ms is not None and not is_time_ms(event_time_ms):
        raise ValueError("the event time is no time")
    return version


def _mismatch(
    known_id: str | None, stored: dict[int, int], fact: TopicFacts, caught_up_ms: int | None
) -> str | None:
    if known_id is None:
        return "new here"
    if known_id != fact.topic_id:
        return "it is another topic of the same name"
    for p, offset in stored.items():
        if not fact.starts.get(p, 0) <= offset <= fact.ends.get(p, -1):
            return f"position {offset} of partition {p} is not in the log"
    if caught_up_ms and time.time_ns() // 1_000_000 - caught_up_ms > _AWAY_MAX_MS:
        return "away for longer than deletions can be seen"
    return None


def main() -> None:
    # as its parent names itself: that one may be gone before it can be asked for
    parent_pid = int(sys.argv[1]) if len(sys.argv) > 1 else os.getppid()
    die_with_parent()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    settings = GatewaySettings()
    flow = load_flow(settings.flow)
    topics = [*(row.topic for row in (*flow.with_state, *flow.views)), *_NO_SNAPSHOTS]
    path = view_path(settings.state_dir)
    with contextlib.suppress(KeyboardInterrupt), only_writer(path, parent_pid):
        try:
            source = ViewSource(settings.kafka, lambda: writer.look_again())
            writer = ViewWriter(ViewStore(path, indexed_states(flow.with_state)), source, topics)
            while True:
                writer.step()
                leave_with_parent(parent_pid)
        except (sqlite3.DatabaseError, DamagedError) as error:
            if isinstance(error, sqlite3.Error) and not is_damaged(error):
                raise
            log.error("the view's file is damaged (%s): making it anew from Kafka", error)
            remove(path)  # and end: the gateway starts the writer again


if __name__ == "__main__":
    main()
