"""Heads that were read before: a device sends the same one with each payload, or nearly.

Only a head that the parser and all rules have taken is learnt, so the same bytes mean the same
request again. What the rules say of the moment (who may ask, how often) is asked each time. A
signature is another one each time: so a signed head is known by what stands around it.
"""

from typing import NamedTuple

from gateway.auth.signature import FORM_BYTES, SCHEME
from gateway.http.message import Certified, Headers, Request

_END = b"\r\n\r\n"
_HEAD_BYTES_MAX = 512
_MOST = 10_000
# they are other ones each time
_CHANGING = (b"idempotency-key", b"traceparent", b"date")
_SIGNED = b"\r\nAuthorization: Headrace-HMAC "
_NAME_BYTES = len(b"\r\nAuthorization: ")


class _Known(NamedTuple):
    method: str
    target: bytes
    headers: Headers
    by_name: dict[bytes, bytes]
    body_bytes: int


class KnownHeads:
    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._signed: dict[bytes, _Known] = {}  # by all but the line with the signature

    def find(
        self, data: bytes, address: str, certified: Certified | None
    ) -> tuple[Request, int] | None:
        """The request and where its body begins, if `data` is all of one that is known."""
        body_at = data.find(_END, 0, _HEAD_BYTES_MAX) + 4
        line = data.find(_SIGNED, 0, body_at)
        if line < 0:
            known = self._known.get(data[:body_at])
            if known is None or len(data) - body_at != known.body_bytes:
                return None
            method, target, headers, by_name, _ = known
        else:
            end = data.find(b"\r\n", line + 2)
            known = self._signed.get(data[:line] + data[end:body_at])
            if known is None or len(data) - body_at != known.body_bytes:
                return None
            value = data[line + _NAME_BYTES : end]
            if value.translate(None, FORM_BYTES):
                return None  # nothing that could end a line, or be no part of one, is passed over
            method, target, headers, by_name, _ = known
            by_name = {**by_name, b"authorization": value}
        return Request(method, target, headers, by_name, address, certified), body_at

    def learn(self, data: bytes, request: Request) -> None:
        """`data` was all of this request."""
        by_name = request.by_name
        length = by_name.get(b"content-length")
        body_at = data.find(_END, 0, _HEAD_BYTES_MAX) + len(_END)
        if length is None or len(data) - body_at != int(length) or _changes(request):
            return
        if len(self._known) + len(self._signed) >= _MOST:
            self._known.clear()
            self._signed.clear()
        headers = [header for header in request.headers if header[0] != b"authorization"]
        known = _Known(request.method, request.target, headers, {**by_name}, int(length))
        line = data.find(_SIGNED, 0, body_at)
        if line >= 0:
            if b"authorization" not in by_name:  # it says twice who is asking
                return
            end = data.find(b"\r\n", line + 2)
            self._signed[data[:line] + data[end:body_at]] = known
        elif not by_name.get(b"authorization", b"").lower().startswith(SCHEME):
            self._known[data[:body_at]] = known


def _changes(request: Request) -> bool:
    return any(name in request.by_name for name in _CHANGING)
