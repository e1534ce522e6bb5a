"""Each record of the event topics is read once and given to all streams that want it.

A stream is at the end of the log, as a member of its channel, or behind it, with a position and a
task of its own that brings it there: out of memory where that reaches back far enough, or else out
of Kafka. Whatever a stream has been given, and nothing more, is what its id says.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from confluent_kafka import KafkaException

from gateway.auth.authenticate import Authenticator
from gateway.event_streams import frames
from gateway.event_streams.catch_up import CatchUp
from gateway.event_streams.channels import Channel, Channels
from gateway.event_streams.event_stream import Ended, EventStream, is_ending
from gateway.event_streams.frames import Reason
from gateway.event_streams.heartbeats import Heartbeats
from gateway.event_streams.live_reader import Batch, Begun, LiveReader, LogChanged
from gateway.event_streams.log_edges import LogEdges, unavailable
from gateway.event_streams.log_position import Layout, Scope
from gateway.event_streams.loop_share import LoopShare
from gateway.event_streams.recent_events import EventEntry, RecentEvents
from gateway.event_streams.to_the_end import ToTheEnd
from gateway.http.problems import Problem, internal_fault
from shared.events.event_reader import EventReader
from shared.flow_table import Flow
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_BEGINS_WITHIN_S = 5.0
_ALONE_MAX_S = 60.0  # without a stream
_RETRY_MS = (1000, 5000)  # so that those who are cut together do not come together


class Hub:
    """Of one life: where what it reads becomes another log, it ends with all its streams."""

    def __init__(
        self,
        settings: GatewaySettings,
        flow: Flow,
        who: Authenticator,
        is_over: Callable[["Hub"], None],
    ) -> None:
        self.streams: set[EventStream] = set()
        self._flow = flow
        self._is_over = is_over
        self._recent_bytes_max = settings.event_recent_bytes_max
        # a connection that takes nothing for twice as long is cut
        self._stall_s = settings.body_pause_max_s / 2
        self._events = EventReader.of(flow)
        self._edges = LogEdges(settings.kafka)
        self._catch_up = CatchUp(settings.kafka, self._events)
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[Begun | Batch | Exception] = asyncio.Queue()
        self._reader = LiveReader(settings.kafka, flow.event_topics, self._hear)
        self._begun = asyncio.Event()
        self._channels: Channels[EventStream] = Channels()
        self._scopes: dict[frozenset[str] | None, Scope] = {}
        self._heartbeats = Heartbeats(
            settings.event_heartbeat_s,
            who,
            self._beat,
            lambda stream: self.end(stream, "unauthenticated"),
        )
        self._layout: Layout
        self._recent: RecentEvents
        self._to_the_end: ToTheEnd
        always = self._pump(), self._heartbeats.run(), self._notice_that_nobody_is_there()
        self._closing: set[asyncio.Task[None]] = set()  # they outlive it
        self._tasks = {self._loop.create_task(self._keep(work)) for work in always}
        self._reader.start()

    def add(self, stream: EventStream) -> None:
        self.streams.add(stream)
        stream.hub = self
        self._heartbeats.add(stream)
        self._start(stream, self._open(stream))

    def end(self, stream: EventStream, reason: Reason) -> None:
        if stream.is_over:
            return
        if not stream.response_started:
            stream.refuse(is_ending())
        else:
            self._settle(stream, stays=False)
            stream.write(frames.last_word(reason, self._id_of(stream)))
            stream.is_over = True
            if stream.is_paused:  # it is to have the time for what is under way
                self._start(stream, self._close_when_taken(stream), self._closing)
            else:
                stream.close()
        self.forget(stream)

    def forget(self, stream: EventStream) -> None:
        self.streams.discard(stream)
        self._leave_channel(stream)

    async def stop(self) -> None:
        self._reader.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._catch_up.close)
        await asyncio.to_thread(self._edges.close)
        self._heartbeats.forget()
        if self._begun.is_set():  # its memory is to be free at once
            del self._recent, self._to_the_end

    # what the log has

    def _hear(self, told: Begun | Batch | Exception) -> None:
        """In the reader's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._told.put_nowait, told)

    async def _pump(self) -> None:
        while True:
            told = await self._told.get()
            if isinstance(told, Begun):
                self._layout = told.layout
                self._recent = RecentEvents(told.begins, self._recent_bytes_max)
                self._to_the_end = ToTheEnd(
                    *(self._layout, self._recent, self._events, self._catch_up),
                    *(self._stall_s, self._join),
                )
                self._begun.set()
            elif isinstance(told, Batch):
                await self._give_all(told)
                self._reader.batch_is_done()
            else:
                self._fail(told)

    async def _keep(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:
            log.exception("a fault in the event streams: all of them end")
            self._fail(error)

    def _fail(self, why: Exception) -> None:
        for stream in [*self.streams]:
            if stream.response_started:
                self.end(stream, "log_changed" if isinstance(why, LogChanged) else "fault")
            else:
                said = why.args[0].str() if isinstance(why, KafkaException) else "it has changed"
                stream.refuse(unavailable(said))
                self.forget(stream)
        self._is_over(self)

    async def _give_all(self, batch: Batch) -> None:
        left = deque(batch.entries)
        while left:
            await self._give(left)
        now = self._recent.now
        for place, offset in batch.passed.items():
            now.advance(place, max(offset, now.offsets[place]))

    async def _give(self, left: deque[EventEntry]) -> None:
        """As many as there is time for, each to all streams."""
        recent, wanting, share = self._recent, dict[Channel[EventStream], None](), LoopShare()
        while left and not share.is_used_up():
            recent.put(entry := left.popleft())
            ids: dict[Scope, bytes] = {}
            for channel in self._channels.of(entry.key):
                event = entry.shown(self._events)
                if event is None or not channel.wanted.takes_type(event.type):
                    continue
                scope = channel.scope
                if scope not in ids:
                    ids[scope] = scope.id_of(recent.now)
                channel.add(frames.event(ids[scope], event.data))
                wanting[channel] = None
        for channel in wanting:
            channel.begin_round()
        self._to_the_end.moved()
        for channel in wanting:
            for stream in [*channel.members]:
                if share.is_used_up():
                    await share.give_back()
                if stream.channel is channel:
                    self._settle(stream)
        await share.give_back()

    def _settle(self, stream: EventStream, *, stays: bool = True) -> None:
        """It has been written all that its channel had for it."""
        if stream.channel is None:
            return
        if owed := stream.channel.owed(stream):
            stream.write(owed)
            if stays and stream.is_paused:
                self._leave_channel(stream)
                stream.position, stream.number = self._recent.now.copy(), self._recent.end
                self._start(stream, self._to_the_end.bring(stream))

    # streams that are behind

    async def _open(self, stream: EventStream) -> None:
        try:
            async with asyncio.timeout(_BEGINS_WITHIN_S):
                await self._begun.wait()
        except TimeoutError:
            raise unavailable("Kafka does not answer") from None
        topics = stream.wanted.topics(self._flow)
        if missing := (topics or frozenset()) - self._layout.places_of.keys():
            raise unavailable(f"there is no topic {min(missing)} yet")
        if topics not in self._scopes:
            self._scopes[topics] = Scope(self._layout, topics)
        stream.scope = scope = self._scopes[topics]
        position = await self._edges.position_of(stream.start_at, self._layout, scope, self._recent)
        if stream.is_over:
            return
        stream.position = position
        stream.number = self._recent.number_for(position.offsets, scope.places)
        stream.begin(scope.id_of(position), random.randint(*_RETRY_MS))
        await self._to_the_end.bring(stream)

    def _join(self, stream: EventStream) -> None:
        stream.channel = self._channels.join(stream, stream.wanted, stream.scope)
        stream.position, stream.has_been_live = None, True

    def _leave_channel(self, stream: EventStream) -> None:
        if stream.channel is not None:
            self._channels.leave(stream, stream.channel)
            stream.channel = None

    async def _close_when_taken(self, stream: EventStream) -> None:
        """Its connection has a deadline for what it is to take, also where this hub is no more."""
        await stream.is_writable()
        stream.close()

    def _id_of(self, stream: EventStream) -> bytes:
        return stream.scope.id_of(stream.position or self._recent.now)

    def _beat(self, stream: EventStream) -> None:
        if stream.response_started and not stream.is_paused:
            self._settle(stream)
            stream.write(frames.heartbeat(self._id_of(stream)))

    async def _notice_that_nobody_is_there(self) -> None:
        alone_since_s = time.monotonic()
        while time.monotonic() - alone_since_s < _ALONE_MAX_S:
            await asyncio.sleep(1)
            if self.streams:
                alone_since_s = time.monotonic()
        self._is_over(self)

    def _start(
        self,
        stream: EventStream,
        work: Awaitable[None],
        tasks: set[asyncio.Task[None]] | None = None,
    ) -> None:
        tasks = self._tasks if tasks is None else tasks
        tasks.add(task := self._loop.create_task(self._run(stream, work)))
        task.add_done_callback(tasks.discard)

    async def _run(self, stream: EventStream, work: Awaitable[None]) -> None:
        try:
            await work
        except Ended as ended:
            self.end(stream, ended.reason)
        except Problem as problem:
            stream.refuse(problem)
            self.forget(stream)
        except Exception:
            log.exception("a fault in an event stream")
            if stream.response_started:
                self.end(stream, "fault")
            else:
                stream.refuse(internal_fault(stream.request.method))
                self.forget(stream)
