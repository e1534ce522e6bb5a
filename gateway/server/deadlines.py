"""How long a client may take, and what becomes of one that takes longer."""

import asyncio
import time
from enum import Enum
from typing import NamedTuple, Protocol

from uvicorn.protocols.http.flow_control import FlowControl

from gateway.http.exchange import Exchange
from gateway.http.problems import Problem, last_refusal
from gateway.server.request_reader import RequestReader
from shared.settings import GatewaySettings

# closing a socket that still receives resets it and the client loses the answer: so much time it
# gets to hear it
LINGER_S = 2.0


class Limits(NamedTuple):
    head_s: float
    keep_alive_s: float
    body_pause_s: float
    body_s: float

    @classmethod
    def of(cls, settings: GatewaySettings) -> "Limits":
        return cls(
            settings.head_deadline_s,
            settings.keep_alive_s,
            settings.body_pause_max_s,
            settings.body_deadline_s,
        )


class Receiving(Enum):
    """What is expected of the client."""

    HEAD = 1
    BODY = 2
    NEXT = 3  # the next request, or patience until this one is answered
    NOTHING = 4  # what still comes is not looked at: an answer is the last one
    END = 5  # the last answer is written


# the enum's own attributes take five times as long, and each request asks a dozen times
HEAD, BODY, NEXT, NOTHING, END = Receiving


class Watched(Protocol):
    transport: asyncio.Transport
    flow: FlowControl
    receiving: Receiving
    unanswered: int
    reader: RequestReader
    exchange: Exchange | None

    def refuse(self, problem: Problem) -> None: ...

    def cut(self) -> None: ...


class Deadlines:
    __slots__ = ("_limits", "ends_at_s", "read_at_s", "since_s", "write_paused_at_s")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.since_s = self.read_at_s = time.monotonic()  # the first: what is `receiving` now
        self.ends_at_s: float | None = None
        self.write_paused_at_s = 0.0

    def look(self, now_s: float, client: Watched) -> None:
        limits, age_s = self._limits, now_s - self.since_s
        if self.ends_at_s is not None:
            if now_s >= self.ends_at_s:
                client.cut()
        elif client.transport.is_closing():
            self.ends_at_s = now_s + LINGER_S  # for what is written and not yet fetched
        elif client.flow.write_paused:
            if now_s - self.write_paused_at_s > limits.body_pause_s:
                client.cut()
        elif client.flow.read_paused:
            self.since_s = self.read_at_s = now_s  # it is us who are slow
        elif client.receiving is HEAD:
            if age_s > limits.head_s:
                self._end_slow_head(client)
        elif client.receiving is BODY:
            if age_s > limits.body_s or now_s - self.read_at_s > limits.body_pause_s:
                client.refuse(self._slow_body(client.reader.body_bytes))
        elif client.receiving is NEXT and not client.unanswered and age_s > limits.keep_alive_s:
            client.transport.close()

    def _end_slow_head(self, client: Watched) -> None:
        if client.exchange is None and not client.reader.framing_bytes:
            client.transport.close()  # an answer to nothing would be taken for one to the next
        else:
            within = f"a request's head has to come within {self._limits.head_s:g} s here"
            client.refuse(last_refusal(408, "head_too_slow", within))

    def _slow_body(self, came_bytes: int) -> Problem:
        return last_refusal(
            408,
            "body_too_slow",
            f"a body has to come within {self._limits.body_s:g} s here, without a pause of "
            f"{self._limits.body_pause_s:g} s; of this one {came_bytes} bytes came: send it again, "
            "faster or in smaller parts",
        )
