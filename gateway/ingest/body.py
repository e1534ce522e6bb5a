"""A request's body, byte for byte and never more of it than the cap."""

from collections.abc import Hashable
from typing import NamedTuple

from gateway.auth.caller import Caller
from gateway.http.message import Request
from gateway.http.problems import Problem, last_refusal, retry_after
from gateway.ingest.admission import Admission


class Limit(NamedTuple):
    """How many bytes a body may have, and the setting that says so."""

    bytes_max: int
    setting: str


class Body:
    """What has been received so far; it takes its place in memory until `release`."""

    __slots__ = (
        *("_admission", "_caller", "_chunks", "_declared_bytes", "_held_bytes", "_holder"),
        *("_holder_bytes", "_limit", "_request"),
    )

    def __init__(
        self,
        declared_bytes: int | None,
        limit: Limit,
        admission: Admission,
        caller: Caller,
        request: Request,
    ) -> None:
        if declared_bytes is not None and declared_bytes > limit.bytes_max:
            raise _too_large(limit)
        self._declared_bytes = declared_bytes
        self._limit = limit
        self._admission = admission
        self._caller = caller
        self._request = request
        self._chunks: list[bytes] = []
        self._held_bytes = 0
        self._holder: Hashable = None
        self._holder_bytes = 0

    def take(self, chunk: bytes) -> None:
        held_bytes = self._held_bytes + len(chunk)
        if held_bytes > self._limit.bytes_max:
            raise _too_large(self._limit)
        if not self._admission.hold(len(chunk)):
            raise _full(
                503, "too_many_bytes_in_flight", "the gateway holds as many bytes as it may"
            )
        self._held_bytes = held_bytes
        self._chunks.append(chunk)
        if held_bytes > self._admission.small_bytes:
            self._count()

    def _count(self) -> None:
        """For the caller, of whom others may need protection."""
        admission = self._admission
        if self._holder is None:
            self._holder = admission.holders.of(self._caller, self._request)
        if not admission.hold_for(self._holder, self._held_bytes - self._holder_bytes):
            raise _full(
                429,
                "too_many_bytes_of_caller",
                f"this caller has more than {admission.share_bytes} bytes on their way, and the "
                "room that is left is for others (HEADRACE_IN_FLIGHT_SHARE_MAX); nothing of this "
                "body was written",
            )
        self._holder_bytes = self._held_bytes

    def whole(self) -> bytes:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        if self._declared_bytes is not None and len(body) != self._declared_bytes:
            raise last_refusal(
                400,
                "body_incomplete",
                f"{len(body)} bytes came of the {self._declared_bytes} that Content-Length says; "
                "send them again",
            )
        return body

    def release(self) -> None:
        self._admission.let_go(self._held_bytes)
        if self._holder_bytes:
            self._admission.let_go_for(self._holder, self._holder_bytes)
        self._held_bytes = self._holder_bytes = 0
        self._chunks.clear()


def _too_large(limit: Limit) -> Problem:
    return last_refusal(
        413,
        "body_too_large",
        f"a body has at most {limit.bytes_max} bytes here; send less, or ask the operator to "
        f"raise {limit.setting}",
    )


def _full(status: int, code: str, detail: str) -> Problem:
    return last_refusal(
        status,
        code,
        f"{detail}; send it again later",
        retry_after(1),
    )
