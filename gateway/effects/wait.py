"""A POST that waits: from its payload's way into the log to its answer."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from gateway.effects.answer import Posted, Receipt, answer_of
from gateway.effects.effect import Effect
from gateway.effects.wait_request import ACCEPTED, Asked
from gateway.http.message import Answer
from shared.flow_table import Flow

_TIME_IS_UP = "it has not come further within the timeout; it goes on its way all the same"
_ON_DISK = (
    "the payload is on this gateway's disk: Kafka is away, or its topic is given more partitions"
)
_PAUSE_S, _PAUSE_MAX_S, _PAUSE_GROWS = 0.01, 0.1, 1.15


class Office(Protocol):
    """Where it waits."""

    flow: Flow

    def enter(self, wait: "Wait") -> str | None:
        """Why it cannot be waited for, if so."""

    def leave(self, wait: "Wait") -> None: ...


class Wait:
    def __init__(self, office: Office, asked: Asked, posted: Posted, effect: Effect) -> None:
        self.asked = asked
        self.effect = effect
        self.payload_id = ""
        self.look_at_s = 0.0  # when its states are looked at next
        self._office = office
        self._posted = posted
        self._until_s = time.monotonic() + asked.timeout_s
        self._why = ""  # it is answered as soon as it is accepted
        self._put: Callable[[], None] | None = None  # the payload, once its end can be heard of
        self._receipt: Receipt | None = None
        self._respond: Callable[[Answer], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pause_s = _PAUSE_S

    def begin(self, payload_id: str, put: Callable[[], None]) -> None:
        """`put` is called once, at once or a moment later: what is written before anybody reads on
        might pass unheard."""
        self.payload_id = payload_id
        self._put = put
        if self.asked.level == ACCEPTED:
            self.can_be_heard()
        elif why := self._office.enter(self):
            self.give_up(why)

    def can_be_heard(self) -> None:
        put, self._put = self._put, None
        if put is not None:
            put()

    def be_heard_or_not(self) -> None:
        """No payload is held back for longer."""
        if self._put is not None:
            self.give_up("Kafka does not say what becomes of it: it does not answer")

    def accepted(self, receipt: Receipt, respond: Callable[[Answer], None]) -> None:
        self._receipt, self._respond = receipt, respond
        if "spooled" in receipt:
            self._end(_ON_DISK)
        elif self._why or self.asked.level == ACCEPTED:
            self._take_place(receipt)
            self._end(self._why)
        else:
            self._take_place(receipt)
            left_s = max(0.0, self._until_s - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(left_s, self._end, _TIME_IS_UP)
            self.is_told()

    def _take_place(self, receipt: Receipt) -> None:
        self.effect.accepted(f"{receipt['topic']}/{receipt['partition']}/{receipt['offset']}")

    def refused(self) -> None:
        """It was not accepted: who has put it says so."""
        self._office.leave(self)

    def is_told(self) -> None:
        """Something of it is known that was not known before."""
        if self._receipt is not None and self.effect.is_settled(self.asked.level):
            self._end("")

    def looks_again(self, now_s: float, least_s: float) -> None:
        """The longer it takes, the seldomer: so a look costs a tenth of the wait, not more."""
        self.look_at_s = now_s + max(self._pause_s, least_s)
        self._pause_s = min(self._pause_s * _PAUSE_GROWS, _PAUSE_MAX_S)

    def give_up(self, why: str) -> None:
        """It is answered with what is known by now."""
        self._why = self._why or why
        if self._receipt is not None:
            self._end(why)
        else:
            self.can_be_heard()

    def _end(self, why: str) -> None:
        self._office.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        respond, self._respond = self._respond, None
        if respond is not None and self._receipt is not None:
            its = self._office.flow, self.asked, self._posted, self._receipt, self.effect
            respond(answer_of(*its, why))
