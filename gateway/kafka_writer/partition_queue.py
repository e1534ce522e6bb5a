"""The ways into Kafka: a queue for each partition, a writer for each broker that leads some.

A writer has one request under way and takes with the next one whatever has come meanwhile. Until
then records wait in queues and not in the producer's library, because there nothing bounds them,
and because of what was never handed over one can say for certain that it was not written.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import MessageSizeTooLargeError, TopicAuthorizationFailedError

from gateway.kafka_writer.outcome import (
    NotWritten,
    OnWritten,
    Outcome,
    OutcomeUnknown,
    Receipt,
    Record,
)
from gateway.kafka_writer.producer_keeper import NOT_AUTHORIZED, ProducerKeeper

log = logging.getLogger(__name__)

AWAY = NotWritten("kafka_unreachable", "Kafka is away")
_BUSY = NotWritten("kafka_unreachable", "Kafka takes nothing at the moment")
_FORMLESS = NotWritten("record_formless", "the gateway cannot write it down: a fault of its own")
_TOO_LARGE = NotWritten("record_too_large", "Kafka's max.message.bytes is below this body's size")


class Parcel:
    """Records of one entity that came together: all on one queue, though maybe not in one batch."""

    __slots__ = ("_known", "_on_written", "at", "records", "until_s")

    def __init__(self, records: Sequence[Record], on_written: OnWritten, until_s: float) -> None:
        self.records = records
        self.until_s = until_s  # by the loop's clock
        self.at = 0  # the first that no batch has been asked to take
        self._on_written = on_written
        self._known: dict[int, Outcome] | None = None  # where not all becomes known at once

    def on_batch_done(self, begin: int, outcomes: list[Outcome]) -> None:
        """With the records from `begin` on."""
        if len(outcomes) < len(self.records):
            self._known = self._known or {}
            self._known.update(enumerate(outcomes, begin))
            if len(self._known) < len(self.records):
                return
            outcomes = [self._known[number] for number in range(len(self.records))]
        try:
            self._on_written(outcomes)
        except Exception:  # whoever cannot hear it must not keep the others from it
            log.exception("an outcome could not be told")


# what one batch has of a parcel: where that begins, and how many records; a plain tuple, because a
# named one takes ten times as long to make
Part = tuple[Parcel, int, int]


class PartitionQueue:
    def __init__(self, topic: str, partition: int, writer: "Writer") -> None:
        self.place = TopicPartition(topic, partition)
        self.writer = writer
        self.waiting: deque[Parcel] = deque()
        self._together_max = sys.maxsize  # less once so many were too large for the topic

    def put(self, parcel: Parcel) -> None:
        self.waiting.append(parcel)
        self.writer.wake(self)

    def next_batch(self, producer: Any) -> tuple[Any, list[Part]]:
        """A batch takes its first record whatever its size."""
        batch = producer.create_batch()
        taken: list[Part] = []
        room, is_full = self._together_max, False
        while self.waiting and not is_full:
            parcel = self.waiting[0]
            begin = parcel.at
            is_full = _fill(batch, parcel, room)
            if count := parcel.at - begin:
                taken.append((parcel, begin, count))
                room -= count
            if not is_full and parcel.at < len(parcel.records):
                # first in its queue, it would stop all that comes behind it
                parcel.at += 1
                parcel.on_batch_done(parcel.at - 1, [_FORMLESS])
            if parcel.at == len(parcel.records):
                self.waiting.popleft()
        batch.close()
        return batch, taken

    def on_batch_done(self, taken: list[Part], outcome: int | Outcome) -> None:
        """`outcome`: the offset of the first one, or what became of all."""
        if isinstance(outcome, int):
            topic, partition = self.place
            first = outcome
            for parcel, begin, count in taken:
                after = first + count
                parcel.on_batch_done(
                    begin, [Receipt(topic, partition, at) for at in range(first, after)]
                )
                first = after
            return
        together = sum(count for _, _, count in taken)
        if outcome is _TOO_LARGE and together > 1:
            # which of them is, if any, is seen when fewer travel together
            self._together_max, outcome = together // 2, _BUSY
        for parcel, begin, count in taken:
            parcel.on_batch_done(begin, [outcome] * count)
        # what came later goes with a new producer or none: it must not overtake what failed
        self.refuse(_BUSY)

    def refuse(self, why: NotWritten) -> None:
        refused, self.waiting = self.waiting, deque()
        for parcel in refused:
            parcel.on_batch_done(parcel.at, [why] * (len(parcel.records) - parcel.at))


def _until_s(taken: list[Part]) -> float:
    """The oldest waits first, so its deadline is the nearest."""
    return taken[0][0].until_s


def _fill(batch: Any, parcel: Parcel, room: int) -> bool:
    """Whether the batch is full; it stops before a record that has no form in Kafka, too."""
    append = batch.append
    end = parcel.at + room
    for record in parcel.records[parcel.at : end]:
        try:
            fits = append(
                timestamp=None, key=record.key, value=record.value, headers=record.headers
            )
        except Exception:
            log.exception("a record has no form in Kafka")
            return False
        if fits is None:
            return True
        parcel.at += 1
    return parcel.at == end


class Writer:
    def __init__(self, keeper: ProducerKeeper, find: Callable[[PartitionQueue], "Writer"]) -> None:
        self._keeper = keeper
        self._find = find
        self._ready: dict[PartitionQueue, None] = {}  # those with something to write
        self._task: asyncio.Task[None] | None = None
        self._payloads = 0  # of the last request

    def wake(self, queue: PartitionQueue) -> None:
        self._ready[queue] = None
        if self._task is None:
            # it begins after what else is ready now, so that this travels together
            self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._ready:
                if self._payloads > 1:
                    # more are near: with another turn of the loop they travel together, since a
                    # request costs as much as several payloads, here and at the broker
                    await asyncio.sleep(0)
                queues, self._ready = self._ready, {}
                producer = self._keeper.producer()
                if producer is None:
                    for queue in queues:
                        queue.refuse(AWAY)
                else:
                    queues_to_write = [x for x in queues if x.waiting and self._is_mine(x)]
                    await self._write_together(producer, queues_to_write)
        finally:
            self._task = None

    def _is_mine(self, queue: PartitionQueue) -> bool:
        """Looked at only here, where nothing of the queue is under way."""
        queue.writer = self._find(queue)
        if queue.writer is not self:
            queue.writer.wake(queue)
        return queue.writer is self

    async def _write_together(self, producer: Any, queues: list[PartitionQueue]) -> None:
        self._keeper.in_flight += 1
        under_way: dict[asyncio.Future[Any], tuple[PartitionQueue, list[Part]]] = {}
        try:
            for queue in queues:
                batch, taken = queue.next_batch(producer)
                if not taken:
                    continue
                written = await self._hand_over(producer, queue, batch, _until_s(taken))
                if written is None:
                    queue.on_batch_done(taken, AWAY)
                else:
                    under_way[written] = queue, taken
                if queue.waiting:
                    self._ready[queue] = None
            self._payloads = sum(count for _, taken in under_way.values() for _, _, count in taken)
            await self._await_all(producer, under_way)
        except Exception as error:  # a fault here must leave nobody waiting for ever
            log.exception("a fault in writing to Kafka")
            self._keeper.retire(producer, error)
            for queue, taken in under_way.values():
                queue.on_batch_done(taken, OutcomeUnknown())
            for queue in queues:
                queue.refuse(_BUSY)
        finally:
            self._keeper.in_flight -= 1

    async def _hand_over(
        self, producer: Any, queue: PartitionQueue, batch: Any, until_s: float
    ) -> "asyncio.Future[Any] | None":
        try:
            async with asyncio.timeout_at(until_s):
                written: asyncio.Future[Any] = await producer.send_batch(
                    batch, queue.place.topic, partition=queue.place.partition
                )
                return written
        except Exception as error:  # aiokafka lets more through than its own errors
            # until `send_batch` returns, nothing of the batch is anywhere
            self._keeper.retire(producer, error)
            return None

    async def _await_all(
        self,
        producer: Any,
        under_way: "dict[asyncio.Future[Any], tuple[PartitionQueue, list[Part]]]",
    ) -> None:
        now_s = asyncio.get_running_loop().time
        while under_way:
            until_s = min(_until_s(taken) for _, taken in under_way.values())
            # unlike wait_for, `wait` leaves the futures alone: giving up does not undo the write
            done, _ = await asyncio.wait(
                under_way, timeout=until_s - now_s(), return_when=asyncio.FIRST_COMPLETED
            )
            late = [one for one, (_, taken) in under_way.items() if _until_s(taken) <= now_s()]
            for one in done or late:
                queue, taken = under_way.pop(one)
                queue.on_batch_done(taken, self._outcome(producer, queue.place.topic, one))

    def _outcome(self, producer: Any, topic: str, written: "asyncio.Future[Any]") -> int | Outcome:
        if not written.done():
            written.add_done_callback(_look_at_result)
            self._keeper.retire(producer, TimeoutError("no ack in time"))
            return OutcomeUnknown()
        try:
            place = written.result()
        except Exception as error:
            self._keeper.retire(producer, error)
            if isinstance(error, TopicAuthorizationFailedError):
                self._keeper.refused_at_s[topic] = asyncio.get_running_loop().time()
            return {
                MessageSizeTooLargeError: _TOO_LARGE,
                TopicAuthorizationFailedError: NOT_AUTHORIZED,
            }.get(type(error), OutcomeUnknown())
        if place.offset < 0 or place.log_start_offset < 0:
            # a repeat that the broker knows, but not its place any more
            return OutcomeUnknown()
        self._keeper.acked_at = asyncio.get_running_loop().time()
        self._keeper.refused_at_s.pop(topic, None)
        offset: int = place.offset
        return offset


def _look_at_result(future: "asyncio.Future[Any]") -> None:
    # an exception that nobody looks at is logged as a fault of ours
    if not future.cancelled():
        future.exception()
