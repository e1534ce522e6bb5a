"""One partition's way into Kafka: one batch is under way, whatever else comes waits here.

It waits here and not in the producer's library, because there nothing bounds it, and because of
what was never handed over one can say for certain that it was not written.
"""

import asyncio
from collections import deque
from typing import Any, NamedTuple

from aiokafka.errors import MessageSizeTooLargeError, TopicAuthorizationFailedError

from gateway.outcomes import NotWritten, Outcome, OutcomeUnknown, Receipt, Record, Tell
from gateway.producer_keeper import NOT_AUTHORIZED, ProducerKeeper

AWAY = NotWritten("kafka_unreachable", "Kafka is away")
_TOO_LARGE = NotWritten("record_too_large", "Kafka's max.message.bytes is below this body's size")


class Waiting(NamedTuple):
    record: Record
    tell: Tell
    until_s: float  # by the loop's clock


class Lane:
    def __init__(self, topic: str, partition: int, keeper: ProducerKeeper) -> None:
        self._topic = topic
        self._partition = partition
        self._keeper = keeper
        self._waiting: deque[Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None

    def put(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        if self._writer is None:
            # it begins after what else is ready now, so that this travels together
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                producer = self._keeper.producer()
                if producer is None:
                    self._refuse(AWAY)
                else:
                    await self._write_batch(producer)
        finally:
            self._writer = None

    async def _write_batch(self, producer: Any) -> None:
        batch = producer.create_batch()
        taken: list[Waiting] = []
        while self._waiting and _fits(batch, self._waiting[0].record):
            taken.append(self._waiting.popleft())
        batch.close()
        # the oldest waits first, so its deadline is the nearest
        outcome = await self._handed_over(producer, batch, taken[0].until_s)
        if isinstance(outcome, int):
            for number, waiting in enumerate(taken):
                waiting.tell(Receipt(self._topic, self._partition, outcome + number))
            return
        for waiting in taken:
            waiting.tell(outcome)
        # what came later goes with a new producer or none: it must not overtake what failed
        self._refuse(NotWritten("kafka_unreachable", "Kafka takes nothing at the moment"))

    async def _handed_over(self, producer: Any, batch: Any, until_s: float) -> int | Outcome:
        """The offset of the batch's first record, or why there is none."""
        self._keeper.in_flight += 1
        try:
            try:
                async with asyncio.timeout_at(until_s):
                    written = await producer.send_batch(
                        batch, self._topic, partition=self._partition
                    )
            except Exception as error:  # aiokafka lets more through than its own errors
                # until `send_batch` returns, nothing of the batch is anywhere
                self._keeper.retire(producer, error)
                return AWAY
            # unlike wait_for, `wait` leaves the future alone: giving up does not undo the write
            await asyncio.wait((written,), timeout=until_s - asyncio.get_running_loop().time())
            return self._outcome(producer, written)
        finally:
            self._keeper.in_flight -= 1

    def _outcome(self, producer: Any, written: "asyncio.Future[Any]") -> int | Outcome:
        if not written.done():
            written.add_done_callback(_look_at_result)
            self._keeper.retire(producer, TimeoutError("no ack in time"))
            return OutcomeUnknown()
        try:
            place = written.result()
        except Exception as error:
            self._keeper.retire(producer, error)
            if isinstance(error, TopicAuthorizationFailedError):
                self._keeper.refused_at_s[self._topic] = asyncio.get_running_loop().time()
            return {
                MessageSizeTooLargeError: _TOO_LARGE,
                TopicAuthorizationFailedError: NOT_AUTHORIZED,
            }.get(type(error), OutcomeUnknown())
        if place.offset < 0 or place.log_start_offset < 0:
            # a repeat that the broker knows, but not its place any more
            return OutcomeUnknown()
        self._keeper.acked_at = asyncio.get_running_loop().time()
        self._keeper.refused_at_s.pop(self._topic, None)
        offset: int = place.offset
        return offset

    def _refuse(self, why: NotWritten) -> None:
        refused, self._waiting = self._waiting, deque()
        for waiting in refused:
            waiting.tell(why)


def _fits(batch: Any, record: Record) -> bool:
    """A batch takes its first record whatever its size."""
    return (
        batch.append(timestamp=None, key=record.key, value=record.value, headers=record.headers)
        is not None
    )


def _look_at_result(future: "asyncio.Future[Any]") -> None:
    # an exception that nobody looks at is logged as a fault of ours
    if not future.cancelled():
        future.exception()
