"""All event streams of this process, and which requests become one."""

import asyncio
import time

from gateway.auth.authenticate import Authenticator
from gateway.auth.holders import Holders
from gateway.event_streams.event_stream import Connection, EventStream, is_ending
from gateway.event_streams.hub import Hub
from gateway.event_streams.wanted_events import asked_by
from gateway.http.message import Request
from gateway.http.page_origins import PageOrigins
from gateway.node.node import Node
from shared.flow_table import Flow
from shared.settings import GatewaySettings

PATH = "/v1/events"
_SIGNED_S = 300.0  # as long as a signature counts: then its reader signs another request


class EventStreams:
    """Nothing is read before the first stream: nobody pays for what nobody asks."""

    def __init__(
        self, settings: GatewaySettings, flow: Flow, who: Authenticator, node: Node
    ) -> None:
        self._settings = settings
        self._flow = flow
        self._who = who
        self._node = node
        self._holders = Holders(settings.trusted_proxies)
        self._pages = PageOrigins(settings.page_origins)
        self._hub: Hub | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def is_for(self, request: Request) -> bool:
        """Payloads of an endpoint of that name come by POST."""
        return request.method == "GET" and request.path() == PATH

    def stream(self, request: Request, connection: Connection) -> EventStream:
        return EventStream(self._open, request, connection, self._pages.lines(request))

    @property
    def count(self) -> int:
        return len(self._hub.streams) if self._hub else 0

    async def start(self) -> None:
        """Begins with the first stream."""

    async def stop(self) -> None:
        if self._hub is not None:
            self._end(self._hub)
        await asyncio.gather(*self._ending)

    def _open(self, stream: EventStream) -> None:
        request = stream.request
        caller = self._who.is_asking(
            request.method, request.target, request.by_name, request.certified
        )
        stream.wanted, stream.start_at = asked_by(request, caller, self._flow)
        if self._node.is_ending:
            raise is_ending()
        stream.set_aside(self._holders.of(caller, request))
        if caller.signed is not None:
            stream.valid_until_s = time.monotonic() + _SIGNED_S
        if self._hub is None:
            self._hub = Hub(self._settings, self._flow, self._who, self._end)
        self._hub.add(stream)

    def _end(self, hub: Hub) -> None:
        if hub is self._hub:
            self._hub = None
            ending = asyncio.get_running_loop().create_task(hub.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
