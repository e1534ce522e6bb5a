"""`python -m gateway.state_view.writer`: state topics -> the view on disk.

Its own process, so that a rebuild takes no time from POSTs. One per state folder: a second one
waits for the lock and takes over when the first is gone.
"""

import contextlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import orjson
from confluent_kafka import Message

from clients.kafka.messages import position_of
from clients.kafka.records import Partition
from gateway.node.parent_process import leave_with_parent, only_writer
from gateway.state_view.division import DividedTopic, Division
from gateway.state_view.own_parts import Share, WholeCopy
from gateway.state_view.parts import part_of, topic_of
from gateway.state_view.records import Changes, DamagedError, Row
from gateway.state_view.store import ViewStore, is_damaged, remove, view_path
from gateway.state_view.topics import TopicFacts, ViewSource, reached_end
from shared.flow import load_flow
from shared.folding.snapshot import META
from shared.kafka_access import KafkaAwayError
from shared.machine.parent_process import die_with_parent
from shared.settings import GatewaySettings
from shared.tables.indexed_fields import indexed_states
from shared.timestamps import is_time_ms
from shared.topic_names import CREDENTIAL_TOPIC, JOB_STATUS_TOPIC

log = logging.getLogger("gateway.state_view.writer")

_LOOK_AT_TOPICS_EVERY_S = 5.0
_LOOK_AT_ENDS_EVERY_S = 0.5
_WAIT_S = 0.25
# A deletion can be seen for a day (delete.retention.ms). Who was away for longer starts again.
_AWAY_MAX_MS = 20 * 3600 * 1000
_VERSION_END = 1 << 63
_NO_SNAPSHOTS = (JOB_STATUS_TOPIC, CREDENTIAL_TOPIC)  # the last record of a key counts


class _Goal(NamedTuple):
    """Where a partition ended at some moment."""

    end: int
    at_ms: int


class ViewWriter:
    def __init__(
        self,
        store: ViewStore,
        source: ViewSource,
        topics: Collection[str],
        share: Share | None = None,
    ) -> None:
        self._store = store
        self._source = source
        self._topics = topics
        self._share = share or WholeCopy()
        # of parts of the view, by partition
        self._positions: dict[Partition, int] = {}
        self._goals: dict[Partition, _Goal] = {}
        self._reached_ms: dict[Partition, int] = {}
        self._of_part: dict[str, list[Partition]] = {}
        self._noted: Division | None = None
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
        has_more_to_do = self._store.index_more() or self._store.sweep()
        messages = self._source.take(0 if has_more_to_do else _WAIT_S)
        if messages:
            changes = to_changes(messages, self._share.divides)
            self._store.apply(changes)
            self._positions |= changes.positions
        self._notice_caught_up()

    def _look(self) -> None:
        if time.monotonic() >= self._topics_due_s:
            self._topics_due_s = time.monotonic() + _LOOK_AT_TOPICS_EVERY_S
            self._look_at_topics()
        if time.monotonic() >= self._ends_due_s:
            self._set_goals()
            self._say_away(None)

    def look_again(self) -> None:
        self._topics_due_s = min(self._topics_due_s, time.monotonic() + _WAIT_S)

    def _look_at_topics(self) -> None:
        if not self._store.is_there():
            raise DamagedError("a reader has found a row that is not what was written")
        facts = self._source.facts(self._topics)
        positions: dict[Partition, int] = {}
        self._divide(facts)
        known = self._store.topic_ids()
        wanted = {
            part: fact.of(partitions)
            for topic, fact in facts.items()
            for part, partitions in self._share.parts(topic, fact.starts.keys())
            if self._share.takes(part, is_held=part in known)
        }
        self._leave(known.keys() - wanted.keys(), facts)
        for part, fact in wanted.items():
            stored = self._store.positions(part)
            why = _mismatch(known.get(part), stored, fact, self._store.caught_up_ms(part))
            if why:
                log.info("reading %s from its start: %s", part, why)
                self._store.begin_topic(part, fact.topic_id)
                stored = {}
                self._positions = {at: o for at, o in self._positions.items() if at[0] != part}
                self._reached_ms = {at: ms for at, ms in self._reached_ms.items() if at[0] != part}
            for p, start in fact.starts.items():
                positions[part, p] = stored.get(p, start)
        if positions.keys() != self._positions.keys():
            self._source.follow({(topic_of(part), p): o for (part, p), o in positions.items()})
            self._positions = positions
            self._reached_ms = {at: ms for at, ms in self._reached_ms.items() if at in positions}
            self._of_part = {}
            for at in positions:
                self._of_part.setdefault(at[0], []).append(at)
            self._goals = {}
            self._ends_due_s = 0.0

    def _divide(self, facts: Mapping[str, TopicFacts]) -> None:
        """Readers are told which topics are, and who else holds parts of them."""
        known, divided = self._store.division(), dict[str, DividedTopic]()
        for topic, its in facts.items():
            if self._share.divides(topic):
                before = known.topics.get(topic)
                # keys stay where they are, also if somebody gives it more partitions
                is_same = before is not None and before.topic_id == its.topic_id
                now = DividedTopic(its.topic_id, len(its.starts))
                divided[topic] = before if before is not None and is_same else now
        for topic in divided.keys() & self._store.topic_ids().keys():  # held as a whole until now
            log.info("%s is divided among gateways now", topic)
            self._store.divide(topic)
        # whom a reader may ask is not forgotten while this gateway does not know it yet
        gateways = self._share.gateways if self._share.gateways or not divided else known.gateways
        noted = Division(tuple(gateways), divided, self._share.trouble)
        if noted != self._noted:
            self._store.note_division(noted)
            self._noted = noted

    def _leave(self, parts: Collection[str], facts: Mapping[str, TopicFacts]) -> None:
        """What other gateways hold now. Of a topic that is not there nobody knows."""
        for part in parts:
            if topic_of(part) in facts:
                log.info("%s is held by other gateways now", part)
                self._store.leave_topic(part)

    def _set_goals(self) -> None:
        """Notes where partitions end that have reached their last goal: one that is being read for
        the first time must not hold up the others."""
        at_ms = time.time_ns() // 1_000_000
        free = self._positions.keys() - self._goals.keys()
        of_place = {(topic_of(part), p): (part, p) for part, p in free}
        if of_place:
            for place, end in self._source.ends(of_place).items():
                self._goals[of_place[place]] = _Goal(end, at_ms)
        self._ends_due_s = time.monotonic() + _LOOK_AT_ENDS_EVERY_S

    def _notice_caught_up(self) -> None:
        """Whoever has passed the ends as of a moment was caught up at that moment."""
        reached = [at for at, goal in self._goals.items() if self._positions.get(at, 0) >= goal.end]
        for at in reached:
            self._reached_ms[at] = self._goals.pop(at).at_ms
        caught_up: dict[int, list[str]] = {}
        for part in {part for part, _ in reached}:
            its = self._of_part.get(part, [])
            if all(at in self._reached_ms for at in its):
                at_ms = min(self._reached_ms[at] for at in its)
                caught_up.setdefault(at_ms, []).append(part)
        for at_ms, parts in caught_up.items():
            self._store.caught_up(parts, at_ms)

    def _say_away(self, away: KafkaAwayError | None) -> None:
        if (away is not None) != self._away:
            self._away = away is not None
            log.warning("Kafka is away: %s", away) if away else log.info("Kafka is back")


def to_changes(
    messages: list[Message], divides: Callable[[str], bool] = lambda _: False
) -> Changes:
    """What the messages change, by the parts of the view; `divides` says of which topics each
    partition is one."""
    changes = Changes()
    for message in messages:
        topic, partition, offset = position_of(message)
        part = part_of(topic, partition) if divides(topic) else topic
        if reached_end(message):
            changes.positions[part, partition] = offset
        elif message.error() is None:
            changes.positions[part, partition] = offset + 1
            _take(changes, message, part, partition, offset)
    return changes


def _take(changes: Changes, message: Message, part: str, partition: int, offset: int) -> None:
    key, value = message.key(), message.value()
    if key is None:
        changes.skip(part)
    elif value is None:
        changes.delete(part, key)
    else:
        try:
            version = None if part in _NO_SNAPSHOTS else _version(value)
        except (ValueError, KeyError, TypeError, AttributeError):
            changes.skip(part)
            return
        _, timestamp_ms = message.timestamp()
        changes.put(Row(part, key, value, version, timestamp_ms, partition, offset))


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
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every request
    settings = GatewaySettings()
    flow = load_flow(settings.flow)
    topics = [*(row.topic for row in (*flow.with_state, *flow.views)), *_NO_SNAPSHOTS]
    path = view_path(settings.state_dir)
    with contextlib.suppress(KeyboardInterrupt), only_writer(path, parent_pid):
        try:
            source = ViewSource(settings.kafka, lambda: writer.look_again())
            share: Share = WholeCopy()
            if settings.state_copies:
                from gateway.state_view.own_divided_parts import (
                    OwnDividedParts,  # with a client of HTTP
                )

                share = divided = OwnDividedParts([row.topic for row in flow.entities], settings)
                divided.watch()
            indexed = [row for row in flow.with_state if not share.divides(row.topic)]
            store = ViewStore(path, indexed_states(indexed))
            writer = ViewWriter(store, source, topics, share)
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
