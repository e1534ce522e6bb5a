"""A request's body, byte for byte and never more of it than the cap."""

import asyncio
from typing import NamedTuple

from starlette.types import Message, Receive, Send

from gateway.admission import Admission
from gateway.problems import MEDIA_TYPE, Problem, retry_after

# a client that is told 413 in the middle of its body gets so much time and room to hear it
_LINGER_S = 2.0
_LINGER_BYTES_MAX = 16 * 1024 * 1024


class ClientGone(Exception):  # noqa: N818 - it is what happened
    """There is nobody left to answer, and nothing was written."""


class Limit(NamedTuple):
    """How many bytes a body may have, and the setting that says so."""

    bytes_max: int
    setting: str


class Patience(NamedTuple):
    """How long a body may take: whoever stops in the middle holds memory that others need."""

    pause_s: float
    whole_s: float


class Payload:
    """What has been received so far; it takes its place in memory until `release`."""

    def __init__(self, receive: Receive, admission: Admission, patience: Patience) -> None:
        self.is_complete = False
        self._receive = receive
        self._admission = admission
        self._patience = patience
        self._held_bytes = 0

    async def read(self, declared_bytes: int | None, limit: Limit) -> bytes:
        if declared_bytes is not None and declared_bytes > limit.bytes_max:
            raise _too_large(limit)
        try:
            chunks = await self._receive_all(limit)
        except TimeoutError:
            raise self._too_slow() from None
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if declared_bytes is not None and len(body) != declared_bytes:
            raise Problem(
                400,
                "body_incomplete",
                f"Content-Length says {declared_bytes} bytes, {len(body)} came; send it again",
                outcome="definite",
                ends_connection=True,
            )
        self.is_complete = True
        return body

    def release(self) -> None:
        self._admission.let_go(self._held_bytes)
        self._held_bytes = 0

    async def _receive_all(self, limit: Limit) -> list[bytes]:
        # Not timed: most bodies come whole, a timer is a third of what is done here for one, and
        # a body that has not begun holds no memory.
        message = await self._receive()
        chunks = [self._take(message, limit)]
        if not message.get("more_body", False):
            return chunks
        pause_s, whole_s = self._patience
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + whole_s
        async with asyncio.timeout_at(None) as wait:
            while message.get("more_body", False):
                wait.reschedule(min(now_s() + pause_s, end_s))
                message = await self._receive()
                chunks.append(self._take(message, limit))
        return chunks

    def _take(self, message: Message, limit: Limit) -> bytes:
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        if self._held_bytes + len(chunk) > limit.bytes_max:
            raise _too_large(limit)
        if not self._admission.hold(len(chunk)):
            raise Problem(
                503,
                "too_many_bytes_in_flight",
                "the gateway holds as many bytes as it may; send it again later",
                outcome="definite",
                headers=retry_after(1),
                ends_connection=True,
            )
        self._held_bytes += len(chunk)
        return chunk

    def _too_slow(self) -> Problem:
        pause_s, whole_s = self._patience
        return Problem(
            408,
            "body_too_slow",
            f"a body has to come within {whole_s:g} s here, without a pause of {pause_s:g} s; of "
            f"this one {self._held_bytes} bytes came: send it again, faster or in smaller parts",
            outcome="definite",
            ends_connection=True,
        )


def _too_large(limit: Limit) -> Problem:
    return Problem(
        413,
        "body_too_large",
        f"a body has at most {limit.bytes_max} bytes here; send less, or ask the operator to "
        f"raise {limit.setting}",
        outcome="definite",
        ends_connection=True,
    )


async def send_problem(problem: Problem, instance: str, receive: Receive, send: Send) -> None:
    body = problem.body(instance)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    if problem.ends_connection:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": problem.ends_connection})
    if problem.ends_connection:
        # closing a socket that still receives resets it, and the client loses the answer
        await _discard(receive)
        await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    seen_bytes = 0
    more = True
    try:
        async with asyncio.timeout(_LINGER_S):
            while more and seen_bytes < _LINGER_BYTES_MAX:
                message = await receive()
                more = message.get("more_body", False)
                seen_bytes += len(message.get("body", b""))
    except TimeoutError:
        return
