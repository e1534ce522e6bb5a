"""Meters, before and after their events change their form: of gallons, they tell litres."""

from dataclasses import replace

from typing_extensions import TypedDict

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
    Rejected,
)


class Gallons(TypedDict):
    gallons: int


class Litres(TypedDict):
    litres: int


class Removed(TypedDict):
    pass


class Meter(TypedDict):
    meter: str
    litres: int
    highest: int
    count: int


def initial(meter: str) -> Fields:
    return {"meter": meter, "litres": 0, "highest": 0, "count": 0}


def _with(state: Fields, litres: int) -> Fields:
    highest = max(litres, state["highest"])
    return {**state, "litres": litres, "highest": highest, "count": state["count"] + 1}


def _of_gallons(state: Fields, event: Event) -> Fields:
    return _with(state, 4 * event.data["gallons"])


def _of_litres(state: Fields, event: Event) -> Fields:
    return _with(state, event.data["litres"])


def _in_litres(data: Fields) -> Fields:
    return {"litres": 4 * data["gallons"]}


def _to_gallons(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    if "gallons" not in payload:
        raise Rejected("unknown_unit", "this version of the domain knows gallons alone")
    return Draft("level", arrival.at_ms, {"gallons": payload["gallons"]})


def _to_litres(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    litres = payload["litres"] if "litres" in payload else 4 * payload["gallons"]
    return Draft("level", arrival.at_ms, {"litres": litres})


def _to_removed(_payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("removed", arrival.at_ms, {})


_REMOVED = Endpoint("removal", enrich=_to_removed, emits=("removed",), stream="meter")

BEFORE = Flow(
    endpoints=(Endpoint("level", enrich=_to_gallons, emits=("level",), stream="meter"), _REMOVED),
    event_types=(
        EventType("level", data=Gallons, stream="meter"),
        EventType("removed", data=Removed, stream="meter"),
    ),
    entities=(
        Entity(
            *("meter", ("level",), initial, _of_gallons),
            state=Meter,
            deleted_by=("removed",),
            history=True,
        ),
    ),
)

_METER = BEFORE.entities[0]
AFTER = replace(
    BEFORE,
    endpoints=(replace(BEFORE.endpoints[0], enrich=_to_litres), _REMOVED),
    event_types=(
        replace(BEFORE.event_types[0], data=Litres, upcasters=(_in_litres,)),
        BEFORE.event_types[1],
    ),
    entities=(replace(_METER, fold=_of_litres),),
)
