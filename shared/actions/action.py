"""What happens outside: an event ignites it, somebody else's code carries it out, and its result
comes back as a payload. That none comes in time is an event, too.

Where an action has a time limit the flow has an endpoint of its own for it, `<name>_deadline`, that
nobody can post to: `fold` writes there what the entity waits for. That payload waits in the lane of
enrich until the time is up, and then becomes `<name>_timed_out` if the entity still waits.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from shared.model import (
    Arrival,
    Draft,
    Dropped,
    Endpoint,
    Event,
    EventType,
    Fields,
    MasterData,
    NotYet,
)
from shared.retry_policy import RetryPolicy

ANSWERED = "answered"
# for a state that does not come: beyond, the deadline is a dead letter
_LATE_MAX_S = 7 * 86_400.0


@dataclass(frozen=True)
class Action:
    """The id of the event that ignites it is what its result has to name."""

    name: str
    ignited_by: str  # event type
    group: str  # the consumer group that carries it out
    answered_at: str  # endpoint that its result is posted to
    after: Literal["event", "completion"] = "event"
    # without an answer for so long the entity gets `<name>_timed_out`. It is counted from when fold
    # has taken the igniting event in, or has made it
    within_s: float | None = None
    entity: str | None = None  # whose state says whether it still waits
    # that state, the igniting event -> whether it does; pure
    waits: Callable[[Fields, Event], bool] | None = None

    @property
    def timed_out(self) -> str:
        """An event type, which the flow declares."""
        return f"{self.name}_timed_out"

    @property
    def deadline(self) -> str:
        return f"{self.name}_deadline"

    def topic(self, ignited_by: EventType) -> str:
        """That its group reads."""
        return ignited_by.topic if self.after == "event" else ignited_by.completion_topic


class TimedOut(TypedDict):
    """What `<name>_timed_out` says."""

    asked: str  # id of the event that ignited the action
    within_s: float


class Asked(TypedDict):
    """The igniting event."""

    id: str
    type: str
    entity_id: str
    time_ms: int
    arrived_ms: int
    data: dict[str, Any]


class Deadline(TypedDict):
    """What fold writes of an entity that begins to wait."""

    entity: str
    id: str
    version: int  # of its state, from which on it knows of the igniting event
    asked: Asked


def deadline_endpoint(action: Action) -> Endpoint:
    assert action.within_s and action.entity
    return Endpoint(
        action.deadline,
        _enrichment(action),
        emits=(action.timed_out,),
        states=(action.entity,),
        payload=Deadline,
        drops=(ANSWERED,),
        retry=RetryPolicy(
            pause_max_s=60, attempts_max=1_000_000, age_max_s=action.within_s + _LATE_MAX_S
        ),
        is_open=False,
    )


def _enrichment(action: Action) -> Callable[[Fields, Arrival, MasterData], Draft | Dropped]:
    def time_out(deadline: Fields, arrival: Arrival, master: MasterData) -> Draft | Dropped:
        assert action.within_s and action.entity and action.waits
        due_ms = arrival.arrived_ms + round(action.within_s * 1000)
        left_ms = due_ms - time.time_ns() // 1_000_000
        if left_ms > 0:
            raise NotYet(f"{action.name} may still be answered", after_s=left_ms / 1000)
        whose = action.entity, deadline["id"]
        if master.version(*whose) < deadline["version"]:
            raise NotYet(f"the state of {deadline['id']} is not published up to its question yet")
        state, asked = master.state(*whose), deadline["asked"]
        if state is None or not action.waits(state, Event(**asked, late=False)):
            return Dropped(ANSWERED, asked["id"])
        says = {"asked": asked["id"], "within_s": action.within_s}
        return Draft(action.timed_out, due_ms, says, deadline["id"])

    return time_out
