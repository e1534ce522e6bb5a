"""Which requests become streams of events."""

from gateway.auth.authenticate import Authenticator
from gateway.auth.caller import Caller
from gateway.event_streams.event_stream import EventStream
from gateway.event_streams.hub import Hub
from gateway.event_streams.wanted_events import asked_by
from gateway.http.message import Request
from gateway.node.node import Node
from gateway.streams.stream import Connection
from gateway.streams.streams import Streams
from shared.flow_table import Flow
from shared.settings import GatewaySettings

PATH = "/v1/events"


class EventStreams(Streams[EventStream]):
    def __init__(
        self, settings: GatewaySettings, flow: Flow, who: Authenticator, node: Node
    ) -> None:
        super().__init__(settings, who, node)
        self._flow = flow

    def is_for(self, request: Request) -> bool:
        """Payloads of an endpoint of that name come by POST."""
        return request.method == "GET" and request.path() == PATH

    def stream(self, request: Request, connection: Connection) -> EventStream:
        return EventStream(self.open, request, connection, self.pages.lines(request))

    def _note_what_is_wanted(self, stream: EventStream, caller: Caller) -> None:
        stream.wanted, stream.start_at = asked_by(stream.request, caller, self._flow)

    def _new_hub(self) -> Hub:
        return Hub(self.settings, self._flow, self.who, self.end)
