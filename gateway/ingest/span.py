"""What a POST tells of its way, and the ones that tell nobody: no library is imported for them."""

from typing import Protocol

from gateway.http.problems import Problem
from gateway.ingest.record import RequestHead
from shared.model import Endpoint


class PostSpan(Protocol):
    def instead_of_given(self, head: RequestHead) -> RequestHead:
        """The records point to this span, which points to the one that the client sent."""

    def accepted(self, payloads: int | None = None) -> None:
        """Payloads where it was a batch."""

    def refused(self, problem: Problem) -> None: ...

    def failed(self, code: str) -> None: ...

    def end(self) -> None: ...


class Tracing(Protocol):
    def begin(self, endpoint: Endpoint, entity_id: str, head: RequestHead) -> PostSpan: ...


class _NoSpan:
    def instead_of_given(self, head: RequestHead) -> RequestHead:
        return head

    def accepted(self, payloads: int | None = None) -> None: ...

    def refused(self, problem: Problem) -> None: ...

    def failed(self, code: str) -> None: ...

    def end(self) -> None: ...


NO_SPAN = _NoSpan()


class Untraced:
    def begin(self, endpoint: Endpoint, entity_id: str, head: RequestHead) -> PostSpan:  # noqa: ARG002
        return NO_SPAN
