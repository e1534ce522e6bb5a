"""Brings a stream to the end of the log: out of memory where that reaches back far enough, or else
out of Kafka."""

import asyncio
from collections.abc import Callable, Sequence

from gateway.event_streams.catch_up import CatchUp
from gateway.event_streams.event_stream import EventStream
from gateway.event_streams.recent_events import EventEntry, RecentEvents
from gateway.streams import frames
from gateway.streams.log_position import Layout, is_behind
from gateway.streams.stream import BYTES_AT_ONCE, Ended
from shared.events.event_reader import EventReader

_RECENT_AT_ONCE = 50  # then others have the loop
_MOVES_WITHIN_S = 0.25


class ToTheEnd:
    def __init__(
        self,
        layout: Layout,
        recent: RecentEvents,
        events: EventReader,
        catch_up: CatchUp,
        stall_s: float,
        join: Callable[[EventStream], None],
    ) -> None:
        """`join`: it is there."""
        self._layout = layout
        self._recent = recent
        self._events = events
        self._catch_up = catch_up
        self._stall_s = stall_s
        self._join = join
        self._moved = asyncio.Event()

    def moved(self) -> None:
        """The end."""
        self._moved.set()
        self._moved.clear()

    async def bring(self, stream: EventStream) -> None:
        """Ended where it does not come there."""
        recent, places = self._recent, stream.scope.places
        while True:
            await stream.has_room(self._stall_s)
            position = stream.position
            if stream.is_over or position is None:
                return
            if not recent.have_all_since(position.offsets, places):
                if stream.has_been_live:
                    raise Ended("slow")
                await self._catch_up.turn(stream, self._layout, recent)
                if stream.position is not None:
                    stream.number = recent.number_for(stream.position.offsets, places)
            elif some := recent.since(stream.number, _RECENT_AT_ONCE):
                begin = max(stream.number, recent.first)
                stream.number = begin + self._write(stream, some)
                await asyncio.sleep(0)
            elif is_behind(recent.now.offsets, position.offsets, places):
                await self._moves()  # another node was quicker
            else:
                self._join(stream)
                return

    def _write(self, stream: EventStream, entries: Sequence[EventEntry]) -> int:
        """How many of them it has had now: all, or as many as it may have at once."""
        position, scope, wanted = stream.position, stream.scope, stream.wanted
        assert position is not None
        found, found_bytes, had = [], 0, 0
        for entry in entries:
            if found_bytes >= BYTES_AT_ONCE:
                break
            had += 1
            offset = entry.position.offset
            if offset < position.offsets[entry.place]:
                continue
            position.advance(entry.place, offset + 1)
            if not wanted.takes_key(entry.key):
                continue
            event = entry.shown(self._events)
            if event is not None and wanted.takes_type(event.type):
                found.append(frames.event(scope.id_of(position), event.data))
                found_bytes += len(found[-1])
        if found:
            stream.write(b"".join(found))
        return had

    async def _moves(self) -> None:
        try:
            async with asyncio.timeout(_MOVES_WITHIN_S):
                await self._moved.wait()
        except TimeoutError:
            pass
