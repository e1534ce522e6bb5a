"""Brings what is in the spool to Kafka, oldest first, as soon as Kafka takes it."""

import asyncio
import contextlib
import logging

from gateway.durable_log import WRONG
from gateway.outcomes import Log, NotWritten, Outcome, Receipt, append_all
from gateway.spool import Spool
from gateway.spool_frame import Frame

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_AGAIN_S = 0.5
_NEVER = {"record_too_large", "record_formless"}


class SpoolDrain:
    def __init__(self, kafka: Log, spool: Spool) -> None:
        self._kafka = kafka
        self._spool = spool
        self._task: asyncio.Task[None] | None = None
        self._complained_of = ""

    async def start(self) -> None:
        self._task = asyncio.create_task(self._drain())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _drain(self) -> None:
        while True:
            try:
                if self._spool.is_empty() or not self._kafka.is_healthy():
                    await asyncio.sleep(_LOOK_EVERY_S)
                elif not self._spool.may_drain():
                    await asyncio.sleep(_AGAIN_S)
                else:
                    await self._drain_some()
            except OSError as error:
                log.error("the spool cannot be read: %s", error)
                await asyncio.sleep(_AGAIN_S)

    async def _drain_some(self) -> None:
        begun_s = asyncio.get_running_loop().time()
        frames, end = await asyncio.to_thread(self._spool.read)
        if not frames:
            return
        if self._spool.state().records <= len(frames):
            self._spool.close_gate()
        await self._bring(frames)
        self._complained_of = ""
        await asyncio.to_thread(self._spool.drained, len(frames), end, frames[-1].spooled_ms)
        if not self._spool.is_empty() and not self._spool.gate_is_closed():
            # as long a rest as the work took: those who POST now need the machine, too
            await asyncio.sleep(asyncio.get_running_loop().time() - begun_s)

    async def _bring(self, frames: list[Frame]) -> None:
        """Until each of them is in Kafka, or is known to be one that Kafka will never take. Where
        none gets there fewer go at once: over a slow way all of them may take longer than they may.
        """
        at_once = len(frames)
        while frames:
            some, later = frames[:at_once], frames[at_once:]
            outcomes = await append_all(self._kafka, [(one.topic, one.record) for one in some])
            again: list[Frame] = []
            for frame, outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Receipt):
                    continue
                if isinstance(outcome, NotWritten) and outcome.code in _NEVER:
                    log.error("set aside, because Kafka will never take it: %s", outcome)
                    self._spool.set_aside(frame)
                    continue
                self._complain(outcome)
                again.append(frame)
            at_once = max(1, at_once // 2 if len(again) == len(some) else at_once * 2)
            frames = [*again, *later]
            if again:
                await asyncio.sleep(_AGAIN_S)

    def _complain(self, outcome: Outcome) -> None:
        """Once, of what only an operator can cure."""
        code = outcome.code if isinstance(outcome, NotWritten) else ""
        if code in WRONG and code != self._complained_of:
            self._complained_of = code
            log.error("the spool waits: %s", outcome)
