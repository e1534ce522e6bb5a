"""Meters that send Avro, with the number of its schema in a registry before it."""

from typing import Any

from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.formats import RegisteredAvro
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData
from shared.retry_policy import RetryPolicy

METER = {"type": "record", "name": "Meter", "fields": [{"name": "kwh", "type": "double"}]}
NEWER = {
    "type": "record",
    "name": "Meter",
    "fields": [*METER["fields"], {"name": "phase", "type": "int", "default": 1}],
}


class Metered(TypedDict):
    kwh: float
    phase: int


def to_metered(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("metered", arrival.at_ms, payload)


def fold(state: Fields, event: Event) -> Fields:
    return {"kwh": [*state["kwh"], event.data["kwh"]]}


def _row(name: str, reader: Any = None, **changes: Any) -> Endpoint:
    retry = RetryPolicy(first_pause_s=1, factor=1, attempts_max=3)
    form = RegisteredAvro(reader)
    return Endpoint(name, to_metered, ("metered",), formats=(form,), retry=retry, **changes)


FLOW = Flow(
    endpoints=(
        _row("meter"),
        _row("lifted", str(NEWER).replace("'", '"'), payload=Metered),
        Endpoint("by_hand", to_metered, ("metered",)),
    ),
    event_types=(EventType("metered"),),
    entities=(Entity("meter", ("metered",), lambda _: {"kwh": []}, fold),),
)
