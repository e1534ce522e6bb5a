"""All streams that are served together: they begin, are told what there is, and end.

A stream is at the end of the log, as a member of its channel, or behind it, with a position and a
task of its own that brings it there. Whatever a stream has been given, and nothing more, is what
its id says.
"""

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from gateway.auth.authenticate import Authenticator
from gateway.http.problems import Problem, internal_fault
from gateway.streams import frames
from gateway.streams.channels import Channel, Channels
from gateway.streams.frames import Reason
from gateway.streams.heartbeats import Heartbeats
from gateway.streams.log_position import LogPosition
from gateway.streams.loop_share import LoopShare
from gateway.streams.stream import Ended, Stream, is_ending
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_ALONE_MAX_S = 60.0  # without a stream
_RETRY_MS = (1000, 5000)  # so that those who are cut together do not come together
One = TypeVar("One", bound=Stream)


class StreamHub(ABC, Generic[One]):
    """Brings records to its streams for one life: where what it reads becomes another log, it ends
    with all its streams."""

    def __init__(
        self,
        settings: GatewaySettings,
        who: Authenticator,
        channels: Channels[One, Any],
        is_over: Callable[[Any], None],
    ) -> None:
        self.streams: set[One] = set()
        self.is_over = is_over
        self.channels = channels
        # a connection that takes nothing for twice as long is cut
        self.stall_s = settings.body_pause_max_s / 2
        self.loop = asyncio.get_running_loop()
        self._heartbeats = Heartbeats(
            settings.event_heartbeat_s,
            who,
            self._beat,
            lambda stream: self.end(stream, "unauthenticated"),
        )
        self._closing: set[asyncio.Task[None]] = set()  # they outlive it
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _open(self, stream: One) -> None:
        """Finds where it begins, and brings it to the end. Problem where it cannot begin."""

    @abstractmethod
    async def _bring(self, stream: One) -> None:
        """To the end, out of what it has not been given; Ended where it does not come there."""

    @abstractmethod
    def _now(self, stream: One) -> LogPosition:
        """Up to where its channel has been given all."""

    @abstractmethod
    def _fail(self, why: Exception) -> None:
        """All streams end."""

    def run_always(self, *works: Coroutine[None, None, None]) -> None:
        for work in (*works, self._heartbeats.run(), self._notice_that_nobody_is_there()):
            self._tasks.add(self.loop.create_task(self._keep(work)))

    def add(self, stream: One) -> None:
        self.streams.add(stream)
        stream.hub = self
        self._heartbeats.add(stream)
        self._start(stream, self._open(stream))

    def end(self, stream: One, reason: Reason) -> None:
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

    def end_all(self, reason: Reason, streams: Iterable[One], not_begun: Problem) -> None:
        for stream in [*streams]:
            if stream.response_started:
                self.end(stream, reason)
            else:
                stream.refuse(not_begun)
                self.forget(stream)

    def forget(self, stream: One) -> None:
        self.streams.discard(stream)
        self._leave_channel(stream)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._heartbeats.forget()

    async def _keep(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:
            log.exception("a fault in the streams: all of them end")
            self._fail(error)

    def begin(self, stream: One, position: LogPosition) -> None:
        stream.position = position
        stream.begin(stream.scope.id_of(position), random.randint(*_RETRY_MS))

    async def give_round(self, wanting: Iterable[Channel[One, Any]], share: LoopShare) -> None:
        """What was added to these channels, to each of their members."""
        for channel in wanting:
            for stream in [*channel.members]:
                if share.is_used_up():
                    await share.give_back()
                if stream.channel is channel:
                    self._settle(stream)
        await share.give_back()

    def _settle(self, stream: One, *, stays: bool = True) -> None:
        """It has been written all that its channel had for it."""
        if stream.channel is None:
            return
        if owed := stream.channel.owed(stream):
            stream.write(owed)
            if stays and stream.is_paused:
                self._leave_channel(stream)
                stream.position = self._now(stream).copy()
                self._start(stream, self._bring(stream))

    def join(self, stream: One, wanted: Any) -> None:
        stream.channel = self.channels.join(stream, wanted, stream.scope)
        stream.position = None

    def _leave_channel(self, stream: One) -> None:
        if stream.channel is not None:
            self.channels.leave(stream, stream.channel)
            stream.channel = None

    async def _close_when_taken(self, stream: One) -> None:
        """Its connection has a deadline for what it is to take, also where this hub is no more."""
        await stream.is_writable()
        stream.close()

    def _id_of(self, stream: One) -> bytes:
        return stream.scope.id_of(stream.position or self._now(stream))

    def _beat(self, stream: One) -> None:
        if stream.response_started and not stream.is_paused:
            self._settle(stream)
            stream.write(frames.heartbeat(self._id_of(stream)))

    async def _notice_that_nobody_is_there(self) -> None:
        alone_since_s = time.monotonic()
        while time.monotonic() - alone_since_s < _ALONE_MAX_S:
            await asyncio.sleep(1)
            if self.streams:
                alone_since_s = time.monotonic()
        self.is_over(self)

    def _start(
        self,
        stream: One,
        work: Coroutine[None, None, None],
        tasks: set[asyncio.Task[None]] | None = None,
    ) -> None:
        tasks = self._tasks if tasks is None else tasks
        tasks.add(task := self.loop.create_task(self._run(stream, work)))
        task.add_done_callback(tasks.discard)

    async def _run(self, stream: One, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Ended as ended:
            self.end(stream, ended.reason)
        except Problem as problem:
            stream.refuse(problem)
            self.forget(stream)
        except Exception:
            log.exception("a fault in a stream")
            if stream.response_started:
                self.end(stream, "fault")
            else:
                stream.refuse(internal_fault(stream.request.method))
                self.forget(stream)
