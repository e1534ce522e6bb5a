"""A request that is let in by its head; its body is still to come."""

from collections.abc import Callable
from typing import NamedTuple

from gateway.auth.caller import Caller
from gateway.effects.wait_request import Asked
from gateway.http.message import Answer
from gateway.http.problems import Problem
from gateway.ingest.body import Body
from gateway.ingest.record import RequestHead
from gateway.ingest.span import PostSpan
from gateway.node.rate_limits import DeviceLimit
from shared.model import Endpoint

Respond = Callable[[Answer | Problem], None]


class Reception(NamedTuple):
    caller: Caller
    endpoint: Endpoint
    entity_id: str
    head: RequestHead
    body: Body
    is_batch: bool
    limit: DeviceLimit | None
    span: PostSpan
    asked: Asked | None = None  # it waits for what becomes of its payload

    def end(self) -> None:
        self.body.release()
        self.span.end()
