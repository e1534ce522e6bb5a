"""A log and a connection that are played, for what a real one shows only by chance."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from gateway.auth.authenticate import NoAuthentication
from gateway.event_streams import hub
from gateway.event_streams.event_stream import EventStream
from gateway.event_streams.hub import Hub
from gateway.event_streams.live_reader import Batch, Begun
from gateway.event_streams.recent_events import EventEntry
from gateway.event_streams.wanted_events import Start, Wanted
from gateway.http.message import Headers, Request
from gateway.streams.log_position import Layout
from shared.events.envelope import Position, event_value
from shared.flow import FLOW
from shared.settings import GatewaySettings
from tests.builders import event_record
from tests.gateway.event_streams.support import Frame, frames_of

LAYOUT = Layout(dict.fromkeys(FLOW.event_topics, 1))
PLACE = LAYOUT.place_of["event.reading.v1", 0]
DEVICE = "device-0001"


class PlayedConnection:
    """Its reader takes nothing, until `take`."""

    def __init__(self) -> None:
        self.raw = b""
        self.untaken_bytes = 0
        self.is_closed = False
        self.flow = FlowControl(self)  # type: ignore[arg-type]
        self.on_write: Callable[[], None] = lambda: None

    def write(self, raw: bytes) -> None:
        self.raw += raw
        self.untaken_bytes += len(raw)
        if self.untaken_bytes > HIGH_WATER_LIMIT:
            self.flow.pause_writing()
        self.on_write()

    def take(self) -> None:
        self.untaken_bytes = 0
        self.flow.resume_writing()

    def close(self) -> None:
        self.is_closed = True

    def set_aside(self, _: object) -> None: ...

    def default_headers(self) -> Headers:
        return []

    def on_response_complete(self) -> None: ...

    def frames(self) -> list[Frame]:
        """Events and last words."""
        lines = iter(self.raw.decode().partition("\r\n\r\n")[2].splitlines())
        return [frame for frame in frames_of(lines) if frame.data is not None]


class PlayedLog:
    """In place of the thread that reads the real one."""

    def __init__(self, *begun: Any) -> None:
        _, _, self.tell = begun
        self._next = 0
        self.given = 0  # batches

    def start(self) -> None:
        self.tell(Begun(LAYOUT, [0] * len(LAYOUT.partitions)))

    def stop(self) -> None: ...

    def batch_is_done(self) -> None:
        self.given += 1

    def write(self, number: int, note_chars: int = 10) -> list[str]:
        """Ids of the events."""
        written = [*entries(self._next, number, note_chars)]
        self._next += number
        self.tell(Batch(written, {PLACE: self._next}))
        return [f"event-{entry.position.offset}" for entry in written]


def entries(begin: int, number: int, note_chars: int) -> Iterator[EventEntry]:
    for offset in range(begin, begin + number):
        record = event_record(offset, entity_id=DEVICE, data={"note": "x" * note_chars})
        at = Position("event.reading.v1", 0, offset)
        yield EventEntry(PLACE, at, DEVICE.encode(), event_value(record))


class PlayedHub:
    def __init__(self, settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch) -> None:
        logs: list[PlayedLog] = []

        def played(*begun: Any) -> PlayedLog:
            logs.append(PlayedLog(*begun))
            return logs[0]

        monkeypatch.setattr(hub, "LiveReader", played)
        self.over: list[Hub] = []
        self.hub = Hub(settings, FLOW, NoAuthentication(), self.over.append)
        (self.log,) = logs

    def open(self, start_at: Start) -> tuple[EventStream, PlayedConnection]:
        connection = PlayedConnection()
        stream = stream_on(connection)
        stream.start_at = start_at
        self.hub.add(stream)
        return stream, connection


def stream_on(connection: PlayedConnection, entity_id: str = DEVICE) -> EventStream:
    request = Request("GET", b"/v1/events", [], {}, "127.0.0.1", None)
    stream = EventStream(lambda _: None, request, connection)  # type: ignore[arg-type]
    stream.wanted = Wanted(b"", keys=frozenset({entity_id.encode()}))
    return stream
