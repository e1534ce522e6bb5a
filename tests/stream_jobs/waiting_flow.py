"""A flow that looks nothing up: what its orders wait for is a service, and `Service` plays it."""

from shared.flow_table import Flow
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, NotYet
from shared.retry_policy import RetryPolicy


class Service:
    """What it answers next."""

    answer: NotYet | None = None
    asked = 0


def to_order(payload: Fields, arrival: Arrival, _master: object) -> Draft:
    Service.asked += 1
    if Service.answer is not None:
        raise Service.answer
    return Draft("ordered", arrival.at_ms, payload)


def to_note(payload: Fields, arrival: Arrival, _master: object) -> Draft:
    """Declares no `retry`."""
    return to_order(payload, arrival, _master)


def fold(state: Fields, event: Event) -> Fields:
    return {"ordered": [*state["ordered"], event.data]}


FLOW = Flow(
    endpoints=(
        Endpoint(
            "order",
            to_order,
            ("ordered",),
            retry=RetryPolicy(first_pause_s=10, factor=3, jitter=0, attempts_max=3, age_max_s=600),
        ),
        Endpoint("note", to_note, ("ordered",)),
    ),
    event_types=(EventType("ordered"),),
    entities=(Entity("customer", ("ordered",), lambda _id: {"ordered": []}, fold),),
)
