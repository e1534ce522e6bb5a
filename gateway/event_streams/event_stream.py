"""A stream of events, and how far it is."""

from collections.abc import Callable

from gateway.event_streams.wanted_events import Start, Wanted
from gateway.http.message import Request
from gateway.streams.stream import Connection, Stream


class EventStream(Stream):
    __slots__ = "has_been_live", "number", "start_at", "wanted"
    wanted: Wanted
    start_at: Start

    def __init__(
        self,
        open_: Callable[["EventStream"], None],
        request: Request,
        connection: Connection,
        lines: bytes = b"",
    ) -> None:
        super().__init__(open_, request, connection, lines)
        self.has_been_live = False
        self.number = 0  # of the next recent event, while it is behind
