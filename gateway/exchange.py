"""A request and its answer, as HTTP has them and no framework."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import httptools

from gateway.auth.mtls import Certified
from gateway.problems import MEDIA_TYPE, Problem

Headers = Sequence[tuple[bytes, bytes]]
ByName = Mapping[bytes, bytes]  # of those that matter, each has come once


def read_by_name(headers: Headers) -> dict[bytes, bytes]:
    """Of headers with one name the last; of two that say who is asking none."""
    by_name = dict(headers)
    if len(by_name) != len(headers) and [n for n, _ in headers].count(b"authorization") > 1:
        del by_name[b"authorization"]
    return by_name


class Request(NamedTuple):
    method: str
    target: bytes  # as it was sent
    headers: Headers
    by_name: ByName
    address: str  # of the peer
    certified: Certified | None = None  # whom the connection's certificate names

    def path(self) -> str:
        target = self.target
        if target[:1] == b"/" and b"%" not in target and b"?" not in target:
            return target.decode()
        raw = target.partition(b"?")[0] if target[:1] == b"/" else httptools.parse_url(target).path
        # what is no UTF-8 is no name of anything here
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode(errors="replace")


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    ends_connection: bool = False


def refusal(problem: Problem, target: bytes) -> Answer:
    # percent-encoded as it was sent, so nothing in it can break a log line
    instance = target[:256].partition(b"?")[0].decode("ascii", errors="replace")
    headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    headers.append((b"content-type", MEDIA_TYPE.encode()))
    return Answer(problem.status, headers, problem.body(instance), problem.ends_connection)
