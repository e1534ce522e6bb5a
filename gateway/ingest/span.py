"""What a POST tells of its way: here nobody, and no library is imported for it. What tells a
collector is in `opentelemetry.py`."""

from gateway.http.problems import Problem
from gateway.ingest.record import RequestHead
from shared.model import Endpoint


class PostSpan:
    def instead_of_given(self, head: RequestHead) -> RequestHead:
        """The records point to this span, which points to the one that the client sent."""
        return head

    def accepted(self, payloads: int | None = None) -> None:
        """Payloads where it was a batch."""

    def refused(self, problem: Problem) -> None: ...

    def failed(self, code: str) -> None: ...

    def end(self) -> None: ...


NO_SPAN = PostSpan()


class Tracing:
    def begin(self, endpoint: Endpoint, entity_id: str, head: RequestHead) -> PostSpan:  # noqa: ARG002
        return NO_SPAN
