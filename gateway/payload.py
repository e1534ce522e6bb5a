"""A request's body, byte for byte and never more of it than the cap."""

from typing import NamedTuple

from starlette.types import Message, Receive, Send

from gateway.admission import Admission
from gateway.problems import MEDIA_TYPE, Problem, retry_after


class ClientGone(Exception):  # noqa: N818 - it is what happened
    """There is nobody left to answer, and nothing was written."""


class Limit(NamedTuple):
    """How many bytes a body may have, and the setting that says so."""

    bytes_max: int
    setting: str


class Payload:
    """What has been received so far; it takes its place in memory until `release`."""

    def __init__(self, receive: Receive, admission: Admission) -> None:
        self.is_complete = False
        self._receive = receive
        self._admission = admission
        self._held_bytes = 0

    async def read(self, declared_bytes: int | None, limit: Limit) -> bytes:
        if declared_bytes is not None and declared_bytes > limit.bytes_max:
            raise _too_large(limit)
        chunks = await self._receive_all(limit)
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
        chunks = []
        more = True
        while more:
            message = await self._receive()
            chunks.append(self._take(message, limit))
            more = message.get("more_body", False)
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


def _too_large(limit: Limit) -> Problem:
    return Problem(
        413,
        "body_too_large",
        f"a body has at most {limit.bytes_max} bytes here; send less, or ask the operator to "
        f"raise {limit.setting}",
        outcome="definite",
        ends_connection=True,
    )


async def send_problem(problem: Problem, instance: str, send: Send) -> None:
    body = problem.body(instance)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    if problem.ends_connection:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
