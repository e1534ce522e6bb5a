"""Heads that were read before: a device sends the same one with each payload, or nearly.

Only a head that the parser and all rules have taken is learnt, so the same bytes mean the same
request again. What the rules say of the moment (who may ask, how often) is asked each time.
"""

from gateway.auth.signature import SCHEME
from gateway.exchange import Request

_END = b"\r\n\r\n"
_HEAD_BYTES_MAX = 512
_MOST = 10_000
# they are other ones each time
_CHANGING = (b"idempotency-key", b"traceparent", b"date")


class KnownHeads:
    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Request, int]] = {}  # and the length of its body

    def find(self, data: bytes) -> tuple[Request, int] | None:
        """The request and where its body begins, if `data` is all of one that is known."""
        body_at = data.find(_END, 0, _HEAD_BYTES_MAX) + 4
        known = self._known.get(data[:body_at])
        if known is None or len(data) - body_at != known[1]:
            return None
        return known[0], body_at

    def learn(self, data: bytes, request: Request) -> None:
        """`data` was all of this request."""
        length = request.by_name.get(b"content-length")
        body_at = data.find(_END, 0, _HEAD_BYTES_MAX) + len(_END)
        if length is None or len(data) - body_at != int(length) or _changes(request):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[data[:body_at]] = request, int(length)


def _changes(request: Request) -> bool:
    if any(name in request.by_name for name in _CHANGING):
        return True
    return request.by_name.get(b"authorization", b"").lower().startswith(SCHEME)
