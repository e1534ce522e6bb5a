"""All streams of a kind of this process, and which requests become one."""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gateway.auth.authenticate import Authenticator
from gateway.auth.caller import Caller
from gateway.auth.holders import Holders
from gateway.http.message import Request
from gateway.http.page_origins import PageOrigins
from gateway.node.node import Node
from gateway.streams.stream import Connection, Stream, is_ending
from gateway.streams.stream_hub import StreamHub
from shared.settings import GatewaySettings

_SIGNED_S = 300.0  # as long as a signature counts: then its reader signs another request
One = TypeVar("One", bound=Stream)


class Streams(ABC, Generic[One]):
    """Nothing is read before the first stream: nobody pays for what nobody asks."""

    def __init__(self, settings: GatewaySettings, who: Authenticator, node: Node) -> None:
        self.settings = settings
        self.who = who
        self._node = node
        self._holders = Holders(settings.trusted_proxies)
        self.pages = PageOrigins(settings.page_origins)
        self._hub: StreamHub[One] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @abstractmethod
    def is_for(self, request: Request) -> bool:
        """Whether it becomes such a stream."""

    @abstractmethod
    def stream(self, request: Request, connection: Connection) -> One: ...

    @abstractmethod
    def _note_what_is_wanted(self, stream: One, caller: Caller) -> None:
        """Problem where the caller may not have it."""

    @abstractmethod
    def _new_hub(self) -> StreamHub[One]: ...

    @property
    def count(self) -> int:
        return len(self._hub.streams) if self._hub else 0

    async def start(self) -> None:
        """Begins with the first stream."""

    async def stop(self) -> None:
        if self._hub is not None:
            self.end(self._hub)
        await asyncio.gather(*self._ending)

    def open(self, stream: One) -> None:
        request = stream.request
        caller = self.who.is_asking(
            request.method, request.target, request.by_name, request.certified
        )
        self._note_what_is_wanted(stream, caller)
        if self._node.is_ending:
            raise is_ending()
        stream.set_aside(self._holders.of(caller, request))
        if caller.signed is not None:
            stream.valid_until_s = time.monotonic() + _SIGNED_S
        if self._hub is None:
            self._hub = self._new_hub()
        self._hub.add(stream)

    def end(self, hub: StreamHub[One]) -> None:
        if hub is self._hub:
            self._hub = None
            ending = asyncio.get_running_loop().create_task(hub.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
