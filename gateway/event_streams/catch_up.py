"""Brings streams from where they begin to what is in memory: a few at once, each for a short turn,
so that many who come from far behind cost threads and memory as few do."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, TopicPartition

from clients.kafka.connect import reader
from gateway.event_streams.event_stream import EventStream
from gateway.event_streams.live_reader import OPTIONS, LogChanged, batch_of
from gateway.event_streams.recent_events import EventEntry, RecentEvents
from gateway.event_streams.wanted_events import Wanted
from gateway.streams import frames
from gateway.streams.log_position import Layout, LogPosition, Scope
from gateway.streams.stream import BYTES_AT_ONCE, Ended
from shared.consumer_groups import VIEW
from shared.events.event_reader import EventReader
from shared.kafka_access import KafkaAccess

_READERS_MAX = 2  # each more one takes the interpreter from those who answer POSTs
_TURN_S = 2.0
_PATIENCE_S = 0.2  # then a reader that does not take what was read leaves its turn to others

_RECORDS_AT_ONCE = 200
_WAITS_S = 0.1
_EVENTS_AT_ONCE = 20  # are made ready, then others may run

Result = TypeVar("Result")


class OldEvents(NamedTuple):
    raw: bytes
    position: LogPosition  # behind them


class OldReader:
    """Blocks; it keeps its connections."""

    def __init__(self, kafka: KafkaAccess, events: EventReader) -> None:
        self._events = events
        self._consumer: Consumer = reader(kafka, VIEW, OPTIONS)
        # what was read last and nobody has had yet, and what is passed with it
        self._left: deque[EventEntry] = deque()
        self._passed: dict[int, int] = {}

    def begin(self, layout: Layout, scope: Scope, position: LogPosition) -> None:
        self._consumer.assign(
            [
                TopicPartition(*layout.partitions[place], position.offsets[place])
                for place in scope.places
            ]
        )

    def read(self, layout: Layout, scope: Scope, wanted: Wanted, begin: LogPosition) -> OldEvents:
        """What comes next, as much as a stream may have at once; LogChanged where the log has it
        no more."""
        position = begin.copy()
        if not self._left:
            entries, self._passed = batch_of(
                self._consumer.consume(_RECORDS_AT_ONCE, _WAITS_S), layout
            )
            self._left.extend(entries)
        found: list[bytes] = []
        made = found_bytes = 0
        while self._left and found_bytes < BYTES_AT_ONCE:
            entry = self._left.popleft()
            position.advance(entry.place, entry.position.offset + 1)
            if not wanted.takes_key(entry.key):
                continue
            made += 1
            if made % _EVENTS_AT_ONCE == 0:
                time.sleep(0)
            event = entry.shown(self._events)
            if event is not None and wanted.takes_type(event.type):
                found.append(frames.event(scope.id_of(position), event.data))
                found_bytes += len(found[-1])
        if not self._left:
            for place, offset in self._passed.items():
                position.advance(place, max(offset, position.offsets[place]))
        return OldEvents(b"".join(found), position)

    def end(self) -> None:
        self._left.clear()
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()


class CatchUp:
    def __init__(self, kafka: KafkaAccess, events: EventReader) -> None:
        self._make = partial(OldReader, kafka, events)
        self._turns = asyncio.Semaphore(_READERS_MAX)
        self._threads = ThreadPoolExecutor(_READERS_MAX, "old events")
        self._idle: list[OldReader] = []

    async def turn(self, stream: EventStream, layout: Layout, recent: RecentEvents) -> None:
        """Ended where what comes next is there no more."""
        async with self._turns:
            if stream.is_over:
                return
            old = self._idle.pop() if self._idle else await self._run(self._make)
            try:
                await self._read(old, stream, layout, recent)
            except LogChanged as changed:
                raise Ended("position_gone") from changed
            finally:
                await self._run(old.end)
                self._idle.append(old)

    async def _read(
        self, source: OldReader, stream: EventStream, layout: Layout, recent: RecentEvents
    ) -> None:
        assert stream.position is not None
        scope, until_s = stream.scope, time.monotonic() + _TURN_S
        await self._run(partial(source.begin, layout, scope, stream.position))
        while time.monotonic() < until_s and not stream.is_over:
            read = partial(source.read, layout, scope, stream.wanted, stream.position)
            old = await self._run(read)
            if stream.is_over:
                return
            stream.position = old.position
            if old.raw:
                stream.write(old.raw)
            if recent.have_all_since(old.position.offsets, scope.places):
                return
            if stream.is_paused:
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        await stream.is_writable()
                except TimeoutError:
                    return

    async def _run(self, what: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    def close(self) -> None:
        """Blocks, when nobody has a turn any more."""
        self._threads.shutdown()
        for old in self._idle:
            old.close()
