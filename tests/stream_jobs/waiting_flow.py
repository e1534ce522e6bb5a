"""A flow that looks nothing up: what its orders wait for is a service, and `Service` plays it; and
one whose orders wait for a row of master data, too."""

from shared.flow_table import Flow
from shared.model import (
    Arrival,
    Draft,
    Endpoint,
    Entity,
    Event,
    EventType,
    Fields,
    MasterData,
    MissingMasterData,
    NotYet,
)
from shared.retry_policy import RetryPolicy


class Service:
    """What it answers next."""

    answer: NotYet | MissingMasterData | None = None
    asked = 0


def to_order(payload: Fields, arrival: Arrival, _master: object) -> Draft:
    Service.asked += 1
    if Service.answer is not None:
        raise Service.answer
    return Draft("ordered", arrival.at_ms, payload)


def to_note(payload: Fields, arrival: Arrival, _master: object) -> Draft:
    """Declares no `retry`."""
    return to_order(payload, arrival, _master)


def to_known_order(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    if master.find("device", arrival.entity_id) is None:
        raise MissingMasterData("device", arrival.entity_id)
    return to_order(payload, arrival, master)


def fold(state: Fields, event: Event) -> Fields:
    return {"ordered": [*state["ordered"], event.data]}


_RETRY = RetryPolicy(first_pause_s=10, factor=3, jitter=0, attempts_max=3, age_max_s=600)
_ROWS = {
    "event_types": (EventType("ordered"),),
    "entities": (Entity("customer", ("ordered",), lambda _id: {"ordered": []}, fold),),
}
FLOW = Flow(
    endpoints=(
        Endpoint("order", to_order, ("ordered",), retry=_RETRY),
        Endpoint("note", to_note, ("ordered",)),
        Endpoint("gift", to_order, ("ordered",), retry=_RETRY._replace(in_order=False)),
    ),
    **_ROWS,
)
LOOKS_UP = Flow(
    endpoints=(Endpoint("order", to_known_order, ("ordered",), master=("device",), retry=_RETRY),),
    **_ROWS,
)
PATIENT = Flow(
    endpoints=(
        Endpoint("order", to_order, ("ordered",), retry=_RETRY._replace(age_max_s=2 * 86_400.0)),
    ),
    **_ROWS,
)
NO_MORE = Flow(
    endpoints=(
        Endpoint("order", to_order, ("ordered",)),
        Endpoint("gift", to_order, ("ordered",), retry=_RETRY),
    ),
    **_ROWS,
)
