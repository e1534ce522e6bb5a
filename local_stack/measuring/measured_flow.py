"""The flow that is measured: one endpoint, one event, one entity, and functions that cost little.

What one's own enrichment and fold cost beyond that comes on top.
"""

from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData


class Payload(TypedDict):
    value: int
    note: str


class Thing(TypedDict):
    count: int
    value: int | None
    lowest: int | None
    highest: int | None


def to_event(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("measured", arrival.at_ms, {"value": payload["value"], "note": payload["note"]})


def initial(_entity_id: str) -> Fields:
    return {"count": 0, "value": None, "lowest": None, "highest": None}


def fold(state: Fields, event: Event) -> Fields:
    value, lowest, highest = event.data["value"], state["lowest"], state["highest"]
    return {
        "count": state["count"] + 1,
        "value": value,
        "lowest": value if lowest is None else min(lowest, value),
        "highest": value if highest is None else max(highest, value),
    }


FLOW = Flow(
    endpoints=(Endpoint("plan", enrich=to_event, emits=("measured",), payload=Payload),),
    event_types=(EventType("measured", data=Payload),),
    entities=(Entity("thing", folds=("measured",), initial=initial, fold=fold, state=Thing),),
)
