"""Each record of the event topics is read once and given to all streams that want it.

Streams that are behind get there out of memory where that reaches back far enough, or else out of
Kafka.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from confluent_kafka import KafkaException

from gateway.auth.authenticate import Authenticator
from gateway.event_streams.catch_up import CatchUp
from gateway.event_streams.event_channels import EventChannels
from gateway.event_streams.event_stream import EventStream
from gateway.event_streams.live_reader import Batch, Begun, LiveReader, LogChanged
from gateway.event_streams.log_edges import LogEdges, unavailable
from gateway.event_streams.recent_events import EventEntry, RecentEvents
from gateway.event_streams.to_the_end import ToTheEnd
from gateway.event_streams.wanted_events import Wanted
from gateway.streams import frames
from gateway.streams.channels import Channel
from gateway.streams.log_position import Layout, LogPosition, Scope
from gateway.streams.loop_share import LoopShare
from gateway.streams.stream_hub import StreamHub
from shared.events.event_reader import EventReader
from shared.flow_table import Flow
from shared.settings import GatewaySettings

_BEGINS_WITHIN_S = 5.0


class Hub(StreamHub[EventStream]):
    def __init__(
        self,
        settings: GatewaySettings,
        flow: Flow,
        who: Authenticator,
        is_over: Callable[["Hub"], None],
    ) -> None:
        self._of_entities = EventChannels[EventStream]()
        super().__init__(settings, who, self._of_entities, is_over)
        self._flow = flow
        self._recent_bytes_max = settings.event_recent_bytes_max
        self._events = EventReader.of(flow)
        self._edges = LogEdges(settings.kafka)
        self._catch_up = CatchUp(settings.kafka, self._events)
        self._told: asyncio.Queue[Begun | Batch | Exception] = asyncio.Queue()
        self._reader = LiveReader(settings.kafka, flow.event_topics, self._hear)
        self._begun = asyncio.Event()
        self._scopes: dict[frozenset[str] | None, Scope] = {}
        self._layout: Layout
        self._recent: RecentEvents
        self._to_the_end: ToTheEnd
        self.run_always(self._pump())
        self._reader.start()

    async def stop(self) -> None:
        self._reader.stop()
        await super().stop()
        await asyncio.to_thread(self._catch_up.close)
        await asyncio.to_thread(self._edges.close)
        if self._begun.is_set():  # its memory is to be free at once
            del self._recent, self._to_the_end

    # what the log has

    def _hear(self, told: Begun | Batch | Exception) -> None:
        """In the reader's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._told.put_nowait, told)

    async def _pump(self) -> None:
        while True:
            told = await self._told.get()
            if isinstance(told, Begun):
                self._layout = told.layout
                self._recent = RecentEvents(told.begins, self._recent_bytes_max)
                self._to_the_end = ToTheEnd(
                    *(self._layout, self._recent, self._events, self._catch_up),
                    *(self.stall_s, self._arrive),
                )
                self._begun.set()
            elif isinstance(told, Batch):
                await self._give_all(told)
                self._reader.batch_is_done()
            else:
                self._fail(told)

    def _fail(self, why: Exception) -> None:
        said = why.args[0].str() if isinstance(why, KafkaException) else "it has changed"
        reason: frames.Reason = "log_changed" if isinstance(why, LogChanged) else "fault"
        self.end_all(reason, self.streams, unavailable(said))
        self.is_over(self)

    async def _give_all(self, batch: Batch) -> None:
        left = deque(batch.entries)
        while left:
            await self._give(left)
        now = self._recent.now
        for place, offset in batch.passed.items():
            now.advance(place, max(offset, now.offsets[place]))

    async def _give(self, left: deque[EventEntry]) -> None:
        """As many as there is time for, each to all streams."""
        recent, share = self._recent, LoopShare()
        wanting: dict[Channel[EventStream, Wanted], None] = {}
        while left and not share.is_used_up():
            recent.put(entry := left.popleft())
            ids: dict[Scope, bytes] = {}
            for channel in self._of_entities.of(entry.key):
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
        await self.give_round(wanting, share)

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
        stream.number = self._recent.number_for(position.offsets, scope.places)
        self.begin(stream, position)
        await self._to_the_end.bring(stream)

    async def _bring(self, stream: EventStream) -> None:
        if stream.position is not None:
            stream.number = self._recent.number_for(stream.position.offsets, stream.scope.places)
            await self._to_the_end.bring(stream)

    def _arrive(self, stream: EventStream) -> None:
        self.join(stream, stream.wanted)
        stream.has_been_live = True

    def _now(self, _: EventStream) -> LogPosition:
        return self._recent.now
