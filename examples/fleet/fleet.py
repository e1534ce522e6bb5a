"""Trucks that send one message with many readings: all of the domain is this file.

    PYTHONPATH=examples/fleet HEADRACE_FLOW=fleet:FLOW ./headrace up

A truck sends a batch in CBOR, mostly gzipped: where it was, and how its tires were. Each fix
becomes an event of the truck, and each pressure an event of a wheel, all of them or none. What a
truck sends while it is in the workshop is dropped on purpose, and counted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.formats import Cbor
from shared.model import (
    Arrival,
    Draft,
    Dropped,
    Endpoint,
    Entity,
    Event,
    EventType,
    Fields,
    MasterData,
)


class FixSent(TypedDict):
    at: datetime
    lat: Annotated[FiniteFloat, Field(ge=-90, le=90)]
    lon: Annotated[FiniteFloat, Field(ge=-180, le=180)]


class TireSent(TypedDict):
    wheel: Literal["fl", "fr", "rl", "rr"]
    bar: FiniteFloat


class Batch(TypedDict):
    mode: Literal["road", "workshop"]
    fixes: list[FixSent]
    tires: list[TireSent]


class Fix(TypedDict):
    lat: FiniteFloat
    lon: FiniteFloat


class Pressure(TypedDict):
    bar: FiniteFloat


class Truck(TypedDict):
    truck: str
    fixes: int
    last: Fix | None
    north_most: float | None


class Wheel(TypedDict):
    wheel: str
    bar: float | None
    lowest: float | None
    measured: int


def to_events(batch: Fields, arrival: Arrival, _master: MasterData) -> Iterator[Draft] | Dropped:
    if batch["mode"] == "workshop":
        return Dropped("workshop")
    if not batch["fixes"] and not batch["tires"]:
        return Dropped("nothing_measured")
    return _events(batch, arrival)


def _events(batch: Fields, arrival: Arrival) -> Iterator[Draft]:
    for fix in batch["fixes"]:
        time_ms = int(fix["at"].timestamp() * 1000)
        yield Draft("fix", time_ms, {"lat": fix["lat"], "lon": fix["lon"]})
    for tire in batch["tires"]:
        wheel = f"{arrival.entity_id}:{tire['wheel']}"
        yield Draft("pressure", arrival.at_ms, {"bar": tire["bar"]}, entity_id=wheel)


def new_truck(truck: str) -> Fields:
    return {"truck": truck, "fixes": 0, "last": None, "north_most": None}


def fold_truck(state: Fields, event: Event) -> Fields:
    lat, known = event.data["lat"], state["north_most"]
    new = {
        **state,
        "fixes": state["fixes"] + 1,
        "north_most": lat if known is None else max(lat, known),
    }
    return new if event.late else {**new, "last": event.data}


def new_wheel(wheel: str) -> Fields:
    return {"wheel": wheel, "bar": None, "lowest": None, "measured": 0}


def fold_wheel(state: Fields, event: Event) -> Fields:
    bar, known = event.data["bar"], state["lowest"]
    return {
        **state,
        "bar": state["bar"] if event.late else bar,
        "lowest": bar if known is None else min(bar, known),
        "measured": state["measured"] + 1,
    }


FLOW = Flow(
    endpoints=(
        Endpoint(
            "batch",
            to_events,
            emits=("fix", "pressure"),
            payload=Batch,
            formats=(Cbor(),),
            drops=("workshop", "nothing_measured"),
        ),
    ),
    event_types=(EventType("fix", data=Fix), EventType("pressure", data=Pressure)),
    entities=(
        Entity("truck", folds=("fix",), initial=new_truck, fold=fold_truck, state=Truck),
        Entity("wheel", folds=("pressure",), initial=new_wheel, fold=fold_wheel, state=Wheel),
    ),
)
