"""What goes over the wire: data, heartbeats and last words as server-sent events. Pure."""

from typing import Literal

import orjson

from gateway.http.message import STATUS_LINE, Headers

# why a stream ends that its reader did not end
Reason = Literal["slow", "ending", "unauthenticated", "position_gone", "log_changed", "fault"]
_WHY: dict[Reason, str] = {
    "slow": "this reader took its events too slowly; it may come again and catch up",
    "ending": "this gateway is about to end; come again, another one goes on",
    "unauthenticated": "the credential does not hold any more; come again with one that does",
    "position_gone": "events that were still to come are deleted by the topic's retention",
    "log_changed": "what it reads is another log now; come again",
    "fault": "a fault of the gateway; the operator finds it in the gateway's log; come again",
}
EVENT_STREAM = "text/event-stream"
_HEADERS = (
    f"content-type: {EVENT_STREAM}\r\ncache-control: no-store\r\nx-accel-buffering: no\r\n"
).encode()
_CLOSES = (b"connection", b"close")


def event(id_: bytes, data: bytes) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (id_, data)


def head(default_headers: Headers, more_lines: bytes, id_: bytes, retry_ms: int) -> bytes:
    """The head of the answer, and how a reader comes again: after such a pause, and from there."""
    lines = b"".join(b"%b: %b\r\n" % header for header in default_headers if header != _CLOSES)
    return b"%b%b%b%bconnection: close\r\n\r\nretry: %d\nid: %b\n\n" % (
        STATUS_LINE[200],
        lines,
        _HEADERS,
        more_lines,
        retry_ms,
        id_,
    )


def heartbeat(id_: bytes) -> bytes:
    """The id moves on also where nothing is shown: who comes again need not read all of it."""
    return b": still here\nid: %b\n\n" % id_


def last_word(reason: Reason, id_: bytes) -> bytes:
    said = {"reason": reason, "detail": _WHY[reason], "last_event_id": id_.decode()}
    return b"event: end\nid: %b\ndata: %b\n\n" % (id_, orjson.dumps(said))
