"""Rows of views and their changes, out of this node's copy, to all streams that want them.

The copy has each row at the offset of its last change. So what a stream lacks are the rows from its
position on, however far behind it is: of several changes of a row it is given the last.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

import orjson

from gateway.auth.authenticate import Authenticator
from gateway.http.problems import Problem, retry_after
from gateway.state_view.reader import Changed, StateView
from gateway.streams import frames
from gateway.streams.channels import Channel
from gateway.streams.log_position import LogPosition, is_behind
from gateway.streams.loop_share import LoopShare
from gateway.streams.stream import BYTES_AT_ONCE
from gateway.streams.stream_hub import StreamHub
from gateway.views.change_channels import ChangeChannels
from gateway.views.change_stream import ChangeStream, WantedRows
from gateway.views.copied_topic import CopiedTopic, look_at, warming
from shared.model import View
from shared.settings import GatewaySettings

_LOOK_EVERY_S = 0.1
_BEGINS_WITHIN_S = 5.0
_SELECTIONS_MAX = 200  # of a view, that name no value of its key's first column
_ROWS_AT_ONCE = 100  # then others have the loop


class ChangeHub(StreamHub[ChangeStream]):
    def __init__(
        self,
        settings: GatewaySettings,
        who: Authenticator,
        source: StateView,
        is_over: Callable[["ChangeHub"], None],
    ) -> None:
        self._of_rows = ChangeChannels[ChangeStream]()
        super().__init__(settings, who, self._of_rows, is_over)
        self._source = source
        self._topics: dict[str, CopiedTopic] = {}  # by the view's topic
        self._turn = asyncio.Lock()  # those who are behind share the time of one
        self.run_always(self._follow())

    def _fail(self, why: Exception) -> None:
        del why  # the log has it
        for stream in [*self.streams]:
            self.end_all("fault", [stream], warming(stream.wanted.view))
        self.is_over(self)

    # those at the end

    async def _follow(self) -> None:
        while True:
            for topic in [*self._topics.values()]:
                await self._look(topic)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self, topic: CopiedTopic) -> None:
        view = topic.view
        if not any(stream.wanted.view is view for stream in self.streams):
            del self._topics[view.topic]
            return
        seen = look_at(self._source, view)
        if seen is None:
            return  # it is being made anew
        if not topic.is_in(seen):
            of_it = [one for one in self.streams if one.wanted.view is view]
            self.end_all("log_changed", of_it, warming(view))
            del self._topics[view.topic]
            return
        for place in topic.scope.places:
            end = seen.ends.get(place, 0)
            while topic.now.offsets[place] < end:
                changed = self._changed(topic, place, topic.now.offsets[place], end)
                if changed is None:
                    return
                left = deque(changed)
                while left:
                    await self._give(topic, place, left)
                if len(changed) < _ROWS_AT_ONCE:
                    topic.now.advance(place, end)

    async def _give(self, topic: CopiedTopic, place: int, left: deque[Changed]) -> None:
        """As many as there is time for, each to all streams."""
        share = LoopShare()
        wanting: dict[Channel[ChangeStream, WantedRows], None] = {}
        while left and not share.is_used_up():
            _, value, offset = left.popleft()
            topic.now.advance(place, offset + 1)
            row = orjson.loads(value)
            asking = self._of_rows.of(topic.view, row)
            taking = [one for one in asking if one.wanted.selection.takes(row, None)]
            if taking:
                frame = frames.event(topic.scope.id_of(topic.now), orjson.dumps(row))
            for channel in taking:
                channel.add(frame)
                wanting[channel] = None
        for channel in wanting:
            channel.begin_round()
        await self.give_round(wanting, share)

    def _now(self, stream: ChangeStream) -> LogPosition:
        return stream.topic.now

    # those that are behind

    async def _open(self, stream: ChangeStream) -> None:
        stream.topic = await self._topic_of(stream.wanted.view)
        stream.scope = stream.topic.scope
        if not self._of_rows.takes_another(stream.wanted, _SELECTIONS_MAX):
            raise Problem(
                503,
                "too_many_selections",
                f"{_SELECTIONS_MAX} streams ask for other rows of {stream.wanted.view.name} "
                f"already: name a value of {stream.wanted.view.key[0]}, or ask again",
                headers=retry_after(5),
            )
        if not stream.is_over:
            self.begin(stream, stream.begins_at())
            await self._bring(stream)

    async def _topic_of(self, view: View) -> CopiedTopic:
        until_s = time.monotonic() + _BEGINS_WITHIN_S
        while True:
            seen = look_at(self._source, view)
            if seen is not None and seen.is_whole:
                return self._topics.setdefault(view.topic, CopiedTopic(view, seen))
            if time.monotonic() > until_s:
                raise warming(view)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _bring(self, stream: ChangeStream) -> None:
        topic = stream.topic
        while True:
            await stream.has_room(self.stall_s)
            position = stream.position
            if stream.is_over or position is None:
                return
            lacking = [
                place
                for place in topic.scope.places
                if position.offsets[place] < topic.now.offsets[place]
            ]
            if lacking:
                async with self._turn:
                    if not self._catch_up(stream, position, lacking[0]):
                        await asyncio.sleep(_LOOK_EVERY_S)
                    await asyncio.sleep(0)
            elif is_behind(topic.now.offsets, position.offsets, topic.scope.places):
                await asyncio.sleep(_LOOK_EVERY_S)  # another node was quicker
            else:
                self.join(stream, stream.wanted)
                return

    def _catch_up(self, stream: ChangeStream, position: LogPosition, place: int) -> bool:
        """A little; whether it could be read."""
        topic = stream.topic
        end = topic.now.offsets[place]
        changed = self._changed(topic, place, position.offsets[place], end)
        if changed is None:
            return False
        view, selection = stream.wanted
        ranges = selection.ranges(view)
        found, found_bytes = [], 0
        for key, value, offset in changed:
            if found_bytes >= BYTES_AT_ONCE:
                break
            position.advance(place, offset + 1)
            if not any(begin < key < behind for begin, behind in ranges):
                continue
            row = orjson.loads(value)
            if selection.takes(row, None):
                found.append(frames.event(topic.scope.id_of(position), orjson.dumps(row)))
                found_bytes += len(found[-1])
        else:
            if len(changed) < _ROWS_AT_ONCE:
                position.advance(place, end)
        if found:
            stream.write(b"".join(found))
        return True

    def _changed(
        self, topic: CopiedTopic, place: int, begin: int, end: int
    ) -> list[Changed] | None:
        at = topic.view.topic, topic.topic_id, place, begin, end
        return self._source.changed(*at, _ROWS_AT_ONCE)
