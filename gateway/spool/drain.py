"""Brings what is in the spool to Kafka, of each topic the oldest first, once Kafka takes it."""

import asyncio
import logging
from typing import Protocol

from gateway.kafka_writer.outcome import (
    NotWritten,
    Outcome,
    PartitionedLog,
    Receipt,
    append_all,
)
from gateway.spool.frame import Frame, brought
from gateway.spool.spool import Spool
from gateway.spool.spool_log import NOT_ACKNOWLEDGED, STUCK_BY, SpoolLog
from gateway.spool.writing_right import WritingRight

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_AGAIN_S = 0.5
_AGAIN_MAX_S = 5.0
_REST_MAX_S = 1.0
_IDLE_MAX_S = 10.0  # so long its way into Kafka stays open: trouble seldom comes alone
_NEVER = {"record_too_large", "record_formless"}


class OwnLog(PartitionedLog, Protocol):
    """The drain has a way of its own into Kafka: a topic that does not take what is brought, again
    and again, must not disturb those who POST."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class SpoolDrain:
    def __init__(self, kafka: OwnLog, spool: Spool) -> None:
        self._kafka = kafka
        self._spool = spool
        self._task: asyncio.Task[None] | None = None
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._rights = {one.topic: one.rights.new() for one in spool.logs}

    async def start(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _look(self) -> None:
        while True:
            if self._spool.is_empty():
                await asyncio.sleep(_LOOK_EVERY_S)
            elif not self._spool.may_drain():
                await asyncio.sleep(_AGAIN_S)
            else:
                await self._drain_all()

    async def _drain_all(self) -> None:
        now_s = asyncio.get_running_loop().time
        busy_s = now_s()
        try:
            await self._kafka.start()
            while now_s() - busy_s < _IDLE_MAX_S:
                for one in self._spool.logs:
                    if not one.is_empty() and one.topic not in self._drains:
                        self._begin(one)
                if self._drains:
                    busy_s = now_s()
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            for task in self._drains.values():
                task.cancel()
            if self._drains:
                await asyncio.wait(self._drains.values())
            await self._kafka.stop()

    def _begin(self, one: SpoolLog) -> None:
        drain = _TopicDrain(self._kafka, one, self._rights[one.topic])
        task = self._drains[one.topic] = asyncio.create_task(drain.drain())
        task.add_done_callback(lambda _: self._drains.pop(one.topic))


class _TopicDrain:
    def __init__(self, kafka: OwnLog, spool: SpoolLog, right: WritingRight) -> None:
        self._kafka = kafka
        self._spool = spool
        self._right = right

    async def drain(self) -> None:
        try:
            while not self._spool.is_empty():
                try:
                    if self._may_write() and self._kafka.is_healthy():
                        await self._drain_some()
                    else:
                        await asyncio.sleep(_LOOK_EVERY_S)
                except OSError as error:
                    log.error("the spool cannot be read: %s", error)
                    await asyncio.sleep(_AGAIN_S)
        finally:
            self._right.give_back()

    def _may_write(self) -> bool:
        if self._right.is_mine and self._right.is_wanted():
            self._right.give_back()
        if not self._right.is_mine and self._right.take():
            self._kafka.forget(self._spool.topic)  # it may have got partitions
        return self._right.is_mine

    async def _drain_some(self) -> None:
        begun_s = asyncio.get_running_loop().time()
        frames, end = await asyncio.to_thread(self._spool.read)
        if not frames:
            return
        if end == self._spool.end:
            self._spool.close_gate()
        await self._bring(frames)
        await asyncio.to_thread(self._spool.drained, len(frames), end, frames[-1].spooled_ms)
        if not self._spool.is_empty() and not self._spool.gate_is_closed():
            # as long a rest as the work took: those who POST now need the machine, too
            took_s = asyncio.get_running_loop().time() - begun_s
            await asyncio.sleep(min(took_s, _REST_MAX_S))

    async def _bring(self, frames: list[Frame]) -> None:
        """Until each of them is in Kafka, or is known to be one that Kafka will never take. Where
        none gets there fewer go at once: over a slow way all of them may take longer than they may.
        """
        at_once, pause_s = len(frames), _AGAIN_S
        while frames:
            some, later = frames[:at_once], frames[at_once:]
            records = [(one.topic, brought(one)) for one in some]
            outcomes = await append_all(self._kafka, records)
            again: list[Frame] = []
            for frame, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Receipt):
                    continue
                if isinstance(outcome, NotWritten) and outcome.code in _NEVER:
                    log.error("set aside, because Kafka will never take it: %s", outcome)
                    await asyncio.to_thread(self._spool.set_aside, frame, outcome.code)
                    continue
                again.append(frame)
            frames = [*again, *later]
            if len(again) < len(some):
                self._spool.note_progress()
                at_once, pause_s = at_once * 2, _AGAIN_S
            else:
                at_once = max(1, at_once // 2)
                if self._is_stuck(outcomes[0]):
                    self._kafka.forget(self._spool.topic)
                    pause_s = min(2 * pause_s, _AGAIN_MAX_S)
            if again:
                await asyncio.sleep(pause_s)

    def _is_stuck(self, outcome: Outcome) -> bool:
        """Not where Kafka is away: then all wait, and /health says so."""
        code = outcome.code if isinstance(outcome, NotWritten) else NOT_ACKNOWLEDGED
        if code not in STUCK_BY:
            return False
        if self._spool.note_stuck(code):
            log.error("the spool of %s waits: %s", self._spool.topic, code)
        return True
