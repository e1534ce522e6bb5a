"""Taps of two firmwares. The old one sends gallons, and is not held to its contract yet."""

from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.formats import ByField, Versions
from shared.model import Arrival, Draft, Endpoint, Entity, EventType, Fields, MasterData


class InGallons(TypedDict):
    gallons: int
    firmware: str


class InLitres(TypedDict):
    litres: int


def to_litres(old: Fields) -> Fields:
    return {"litres": 4 * int(old["gallons"])}


def to_draw(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("drawn", arrival.at_ms, {"litres": payload["litres"]})


FLOW = Flow(
    endpoints=(
        Endpoint(
            "draw",
            to_draw,
            emits=("drawn",),
            payload=Versions(ByField("v"), {"1": InGallons, "2": InLitres}, (to_litres,), "1"),
            contract_mode="warn",
        ),
    ),
    event_types=(EventType("drawn"),),
    entities=(
        Entity(
            "tap",
            folds=("drawn",),
            initial=lambda _: {"litres": 0},
            fold=lambda state, event: {"litres": state["litres"] + event.data["litres"]},
        ),
    ),
)
