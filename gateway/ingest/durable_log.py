"""Where an accepted payload goes: to Kafka, and while Kafka takes none to this node's spool.

As long as anything of its topic is in the spool, a payload goes through it: nothing may overtake an
earlier payload of its entity. So it does while the topic is given partitions: then this process has
no right to write to it (`writing_right.py`).
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from gateway.kafka_writer.outcome import (
    NotWritten,
    OnWritten,
    Outcome,
    OutcomeUnknown,
    PartitionedLog,
    Receipt,
    Record,
    Spooled,
)
from gateway.spool.frame import Frame
from gateway.spool.spool import Spool
from gateway.spool.spool_log import SpoolLog

log = logging.getLogger(__name__)

FULL = NotWritten("spool_full", "Kafka is away and the spool is full")
# to wait for Kafka would not help: the operator has to set it right, and should hear of it
WRONG = {"record_formless", "record_too_large", "topic_missing", "not_authorized"}
_GATE_LOOK_S = 0.005
_RIGHT_LOOK_S = 0.2


class _Waiting(NamedTuple):
    number: int  # in the order in which they came
    records: Sequence[Record]
    on_written: OnWritten
    kafka: list[Outcome] | None  # what it has said, where it was asked

    def unwritten(self) -> Iterator[Record]:
        for number, record in enumerate(self.records):
            if self.kafka is None or not _is_the_last_word(self.kafka[number]):
                yield record


class DurableLog:
    def __init__(self, kafka: PartitionedLog, spool: Spool) -> None:
        self._kafka = kafka
        self._spool = spool
        self._ways = {one.topic: _Way(kafka, one) for one in spool.logs}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for way in self._ways.values():
            way.look_at_right()
        self._task = asyncio.create_task(self._look_at_rights())

    async def stop(self) -> None:
        """What is under way goes on: the rights end with the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _look_at_rights(self) -> None:
        while True:
            await asyncio.sleep(_RIGHT_LOOK_S)
            for way in self._ways.values():
                try:
                    way.look_at_right()
                except OSError as error:
                    log.error("whether this process may write cannot be seen: %s", error)

    def is_healthy(self) -> bool:
        return self._kafka.is_healthy() or self._spool.has_room()

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        self._ways[topic].put(records, on_written)


class _Way:
    """The way of one topic's payloads, to Kafka or to the spool."""

    def __init__(self, kafka: PartitionedLog, spool: SpoolLog) -> None:
        self._kafka = kafka
        self._spool = spool
        self._topic = spool.topic
        self._right = spool.rights.new()
        self._may_write = True
        self._puts = 0
        self._asked: dict[bytes, int] = {}  # by entity: what Kafka has yet to answer
        self._held: dict[bytes, list[_Waiting]] = {}  # by entity: until Kafka has
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    def put(self, records: Sequence[Record], on_written: OnWritten) -> None:
        self._puts += 1
        is_free = self._may_write and self._writer is None and not self._held
        if is_free and self._spool.is_empty():
            self._put_into_kafka(self._puts, records, on_written)
            return
        waiting = _Waiting(self._puts, records, on_written, None)
        entity = records[0].key
        if entity in self._asked:  # an earlier one may come here, too
            self._held.setdefault(entity, []).append(waiting)
        else:
            self._put_into_spool([waiting])

    def look_at_right(self) -> None:
        """Given back when Kafka has answered all that it was asked; had again, it is to a topic
        that may have more partitions."""
        if not self._right.is_mine:
            if self._right.take():
                self._kafka.forget(self._topic)
        elif self._right.is_wanted():
            self._may_write = False
            if self._asked:
                return
            self._right.give_back()
        self._may_write = self._right.is_mine

    def _put_into_kafka(
        self, number: int, records: Sequence[Record], on_written: OnWritten
    ) -> None:
        entity = records[0].key
        self._asked[entity] = self._asked.get(entity, 0) + 1

        def on_kafka_done(outcomes: list[Outcome]) -> None:
            for outcome in outcomes:
                if not _is_the_last_word(outcome):
                    # it may land twice, under the same event id: that has one effect
                    waiting = _Waiting(number, records, on_written, outcomes)
                    self._held.setdefault(entity, []).append(waiting)
                    self._is_answered(entity)
                    return
            self._is_answered(entity)
            on_written(outcomes)

        try:
            self._kafka.put(self._topic, records, on_kafka_done)
        except BaseException:
            self._is_answered(entity)
            raise

    def _is_answered(self, entity: bytes) -> None:
        if left := self._asked.pop(entity) - 1:
            self._asked[entity] = left
        elif held := self._held.pop(entity, None):
            self._put_into_spool(sorted(held, key=lambda waiting: waiting.number))

    def _put_into_spool(self, waiting: list[_Waiting]) -> None:
        self._waiting += waiting
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """What comes during one write travels with the next: they share its wait for the disk."""
        try:
            while self._waiting:
                if self._spool.gate_is_closed():
                    await asyncio.sleep(_GATE_LOOK_S)
                    continue
                group, self._waiting = self._waiting, []
                if self._may_pass_the_spool(group):
                    for number, records, on_written, _ in group:
                        self._put_into_kafka(number, records, on_written)
                else:
                    await self._write_into_spool(group)
        finally:
            self._writer = None

    def _may_pass_the_spool(self, group: list[_Waiting]) -> bool:
        untried = all(waiting.kafka is None for waiting in group)
        is_free = self._may_write and self._spool.is_empty()
        return untried and is_free and self._kafka.is_healthy()

    async def _write_into_spool(self, group: list[_Waiting]) -> None:
        now_ms = time.time_ns() // 1_000_000
        frames = [
            Frame(self._topic, record, now_ms)
            for waiting in group
            for record in waiting.unwritten()
        ]
        rest: Outcome = FULL
        try:
            written = await asyncio.to_thread(self._spool.append, frames)
        except OSError as error:
            log.error("the spool's disk has failed: %s", error)
            written, rest = 0, OutcomeUnknown()
        left = iter(range(written))
        for waiting in group:
            said = waiting.kafka or repeat(None, len(waiting.records))
            outcomes = [_outcome(one, self._topic, left, rest) for one in said]
            try:
                waiting.on_written(outcomes)
            except Exception:  # whoever cannot hear it must not keep the others from it
                log.exception("an outcome could not be told")


def _outcome(said: Outcome | None, topic: str, left: Iterator[int], rest: Outcome) -> Outcome:
    """What becomes of a record of which Kafka has `said` something or was not asked, after the
    spool has taken the first ones of those that are not written."""
    if said is not None and _is_the_last_word(said):
        return said
    if next(left, None) is not None:
        return Spooled(topic)
    # nothing on the disk says nothing of what Kafka may still do
    return said if isinstance(said, OutcomeUnknown) else rest


def _is_the_last_word(outcome: Outcome) -> bool:
    """What the spool would not change."""
    return isinstance(outcome, Receipt) or (
        isinstance(outcome, NotWritten) and outcome.code in WRONG
    )
