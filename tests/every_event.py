"""Flows with every event on one topic, and those of an entity on another."""

from collections.abc import Iterator
from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.model import AllEvents, Arrival, Draft, Endpoint, Entity, Event, EventType, Fields

# folds one of the sample's types alone: its topic has no more
COUNTER = Entity(
    "counter",
    folds=("status_changed",),
    initial=lambda _id: {"changes": 0},
    fold=lambda state, _event: {"changes": state["changes"] + 1},
)
FLOW = replace(
    SAMPLE,
    event_types=(*SAMPLE.event_types, EventType("unheard")),
    entities=(*SAMPLE.entities, COUNTER),
    all_events=(AllEvents(), AllEvents(of="counter", retention_days=7)),
)


def _ride(payload: Fields, arrival: Arrival, _master: object) -> Iterator[Draft]:
    yield Draft("moved", arrival.at_ms, payload)
    if payload["n"] % 3 == 0:
        yield Draft("stopped", arrival.at_ms, payload)


def _serviced(before: Fields, after: Fields, event: Event) -> Iterator[Draft]:
    if after["rides"] % 5 == 0 and after != before:
        yield Draft("serviced", event.time_ms, after)


# looks nothing up, and has events of each kind: several of a payload, and such that follow
LIFTS = Flow(
    endpoints=(Endpoint("ride", _ride, ("moved", "stopped")),),
    event_types=(EventType("moved"), EventType("stopped"), EventType("serviced")),
    entities=(
        Entity(
            "lift",
            folds=("moved",),
            initial=lambda _id: {"rides": 0},
            fold=lambda state, _event: {"rides": state["rides"] + 1},
            derive=_serviced,
            emits=("serviced",),
        ),
    ),
    all_events=(AllEvents(), AllEvents(of="lift")),
)
