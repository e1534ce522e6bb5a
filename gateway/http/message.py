"""A request and its answer, as HTTP has them and no framework."""

from collections.abc import Hashable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

from gateway.http.problems import MEDIA_TYPE, Problem

Headers = Sequence[tuple[bytes, bytes]]
ByName = Mapping[bytes, bytes]  # of those that matter, each has come once
STATUS_LINE: dict[int, bytes] = {
    status: f"HTTP/1.1 {status} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def read_by_name(headers: Headers) -> dict[bytes, bytes]:
    """The headers by name: the last one of a name, and none of two that say who is asking."""
    by_name = dict(headers)
    if len(by_name) != len(headers) and [n for n, _ in headers].count(b"authorization") > 1:
        del by_name[b"authorization"]
    return by_name


class Certified(NamedTuple):
    """Whom the connection's certificate names."""

    tenant: str
    device: str
    issuer: Hashable
    serial: int
    not_after_ms: float


class Request(NamedTuple):
    method: str
    target: bytes  # as it was sent
    headers: Headers
    by_name: ByName
    address: str  # of the peer
    certified: Certified | None = None

    def path(self) -> str:
        target = self.target
        if target[:1] == b"/" and b"%" not in target and b"?" not in target:
            return target.decode()
        raw = target.partition(b"?")[0] if target[:1] == b"/" else httptools.parse_url(target).path
        # what is no UTF-8 is no name of anything here
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode(errors="replace")


class Answer(NamedTuple):
    status: int
    lines: bytes  # its own headers, as they are written
    body: bytes
    ends_connection: bool = False


def refusal(problem: Problem, target: bytes) -> Answer:
    # percent-encoded as it was sent, so nothing in it can break a log line
    instance = target[:256].partition(b"?")[0].decode("ascii", errors="replace")
    headers = {**problem.headers, "content-type": MEDIA_TYPE}
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode()
    return Answer(problem.status, lines, problem.body(instance), problem.ends_connection)


def last_answer(problem: Problem, default_headers: Headers, method: str, target: bytes) -> bytes:
    """The bytes of a refusal after which the connection ends."""
    return written(refusal(problem, target), default_headers, method, keep_alive=False)[0]


class _Common(NamedTuple):
    """The headers of every answer, put together once as long as they are the same."""

    headers: Headers
    number: int
    lines: bytes
    is_last: bool  # they end the connection


_common = _Common([], 0, b"", False)


def written(
    answer: Answer, default_headers: Headers, method: str, keep_alive: bool
) -> tuple[bytes, bool]:
    """The answer's bytes; whether it is the last one of its connection."""
    global _common
    headers = default_headers
    if _common.headers is not headers or _common.number != len(headers):
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        _common = _Common(headers, len(headers), lines, (b"connection", b"close") in headers)
    status, lines, body, ends_connection = answer
    is_last = ends_connection or not keep_alive or _common.is_last
    raw = b"%b%b%b%bcontent-length: %d\r\n\r\n%b" % (
        STATUS_LINE[status],
        _common.lines,
        lines,
        b"connection: close\r\n" if is_last and not _common.is_last else b"",
        len(body),
        b"" if method == "HEAD" else body,
    )
    return raw, is_last
