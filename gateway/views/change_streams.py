"""Which requests become streams of a view's changes."""

import re
from urllib.parse import parse_qsl

from gateway.auth.authenticate import Authenticator
from gateway.auth.caller import Caller
from gateway.http.message import Request
from gateway.node.node import Node
from gateway.state_view.reader import StateView
from gateway.streams.frames import EVENT_STREAM
from gateway.streams.stream import Connection
from gateway.streams.streams import Streams
from gateway.views.change_hub import ChangeHub
from gateway.views.change_stream import ChangeStream, WantedRows
from gateway.views.selection import refuse_what_is_of_pages
from gateway.views.view_request import asked_by
from shared.flow_table import Flow
from shared.settings import GatewaySettings

_VIEWS = "/views/"
_NOT_AT_ALL = re.compile(rb"q\s*=\s*0(\.0*)?")


def _takes_streams(accept: bytes) -> bool:
    for one in accept.lower().split(b","):
        kind, *parameters = (part.strip() for part in one.split(b";"))
        if kind == EVENT_STREAM.encode():
            return not any(_NOT_AT_ALL.fullmatch(told) for told in parameters)
    return False


class ChangeStreams(Streams[ChangeStream]):
    def __init__(
        self,
        settings: GatewaySettings,
        flow: Flow,
        who: Authenticator,
        node: Node,
        source: StateView,
    ) -> None:
        super().__init__(settings, who, node)
        self._flow = flow
        self._source = source

    def is_for(self, request: Request) -> bool:
        return (
            request.method == "GET"
            and _takes_streams(request.by_name.get(b"accept", b""))
            and request.path().startswith(_VIEWS)
        )

    def stream(self, request: Request, connection: Connection) -> ChangeStream:
        return ChangeStream(self.open, request, connection, self.pages.lines(request))

    def _note_what_is_wanted(self, stream: ChangeStream, caller: Caller) -> None:
        request = stream.request
        query = request.target.partition(b"?")[2].decode("latin-1")
        parameters = dict(parse_qsl(query, keep_blank_values=True, encoding="utf-8"))
        name = request.path().removeprefix(_VIEWS)
        stream.wanted = WantedRows(*asked_by(caller, self._flow, name, parameters))
        refuse_what_is_of_pages(parameters)
        stream.after = request.by_name.get(b"last-event-id", b"").decode("latin-1")

    def _new_hub(self) -> ChangeHub:
        return ChangeHub(self.settings, self.who, self._source, self.end)
