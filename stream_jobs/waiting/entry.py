"""A payload that waits, and what a try may find. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from shared.events.envelope import Position
from shared.retry_policy import RetryPolicy

AT_ONCE = 0  # as a time that has passed
GIVEN_UP = "given_up"


class Passed(NamedTuple):
    """It became what it should, which has to be written."""


class Missing(NamedTuple):
    """It waits; for a row of master data where one is named."""

    reason: str
    detail: str
    row: str | None
    after_ms: int | None = None  # until the next try, in place of the policy's pause
    away: bool = False  # what it waits for is, as a whole: this try does not count


class Refused(NamedTuple):
    reason: str
    detail: str


Outcome = Passed | Missing | Refused


@dataclass(slots=True)
class Entry:
    """A payload in a line."""

    place: Position
    event_id: str
    read_at: Position  # by enrich: where it came again, another one
    arrived_ms: int  # when it first came
    waits_since_ms: int
    in_lane: tuple[int, int] = (0, 0)  # partition and offset there
    attempt: int = 0  # how often it was sent again by hand
    revision: int = 0
    tries: int = 0
    reason: str = ""  # of the last try
    detail: str = ""
    row: str | None = None  # what it waits for
    due_ms: int = AT_ONCE  # by the time of day, while all ages are by the lane's clock
    given_up_in: int | None = None  # the batch
    parked: bool = False  # and those behind it wait
    taken_ms: int | None = None  # by the lane's clock; earlier versions wrote none
    payload_type: str = ""  # whose policy counts
    away_since_ms: int | None = None  # the last try found away what it waits for
    away_ms: int = 0  # so long before
    away_tries: int = 0
    unwanted: bool = False  # an operator gives it up

    @property
    def ident(self) -> tuple[Position, int]:
        return self.place, self.revision

    @property
    def counts_from_ms(self) -> int:
        """What it waits for was there since, or in the time before that it has waited."""
        return self.away_ms + (self.waits_since_ms if self.taken_ms is None else self.taken_ms)

    @property
    def is_tried_when_due(self) -> bool:
        return self.row is None

    def is_due(self, time_ms: int) -> bool:
        return not self.tries or (self.is_tried_when_due and time_ms >= self.due_ms)

    def has_to_wait(
        self, missing: Missing, now_ms: int, found_ms: int, policy: RetryPolicy
    ) -> None:
        """A try has found that, at `found_ms` by the time of day."""
        if self.away_since_ms is not None:
            self.away_ms += max(0, now_ms - self.away_since_ms)
        self.away_since_ms = now_ms if missing.away else None
        self.tries += 1
        self.away_tries += missing.away
        self.reason, self.detail, self.row = missing.reason, missing.detail, missing.row
        pause_ms = missing.after_ms
        if pause_ms is None:
            # when what was away is back, pauses begin anew: its tries did not count
            counted = self.tries if missing.away else self.tries - self.away_tries
            pause_ms = policy.pause_ms(self.event_id, counted)
        self.due_ms = found_ms + pause_ms

    def is_over(self, now_ms: int, policy: RetryPolicy) -> bool:
        if self.away_since_ms is not None:
            return False
        return policy.is_over(self.tries - self.away_tries, now_ms - self.counts_from_ms)
