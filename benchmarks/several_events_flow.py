"""Readings that come one a payload, as JSON, or many together, as CBOR."""

from collections.abc import Iterator

from shared.flow_table import Flow
from shared.formats import Cbor
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData


def to_reading(payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("reading", payload["at"], payload)


def to_readings(payload: list[Fields], _arrival: Arrival, _master: MasterData) -> Iterator[Draft]:
    for reading in payload:
        yield Draft("reading", reading["at"], reading)


def initial(device: str) -> Fields:
    return {"device": device, "count": 0, "sum": 0.0}


def fold(state: Fields, event: Event) -> Fields:
    return {
        **state,
        "count": state["count"] + 1,
        "sum": state["sum"] + event.data["value"],
    }


FLOW = Flow(
    endpoints=(
        Endpoint("single", to_reading, ("reading",)),
        Endpoint("batch", to_readings, ("reading",), formats=(Cbor(),)),
    ),
    event_types=(EventType("reading"),),
    entities=(Entity("device", folds=("reading",), initial=initial, fold=fold),),
)
