"""Electricity meters that send CSV, one line an hour: all of the domain is this file.

    PYTHONPATH=examples/meter HEADRACE_FLOW=meter:FLOW ./headrace up
    printf 'hour,kwh\\n1,0.5\\n2,0.75\\n' | curl --data-binary @- localhost:8080/v1/day/meter-1

Each line becomes an event. An hour that is sent again counts once, with what was sent last.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.formats import Csv
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData

_HOUR_MS = 3_600_000


class Line(TypedDict):
    hour: Annotated[int, Field(ge=1, le=1_000_000)]  # since 1970
    kwh: Annotated[float, Field(ge=0, le=1e6)]


class Usage(TypedDict):
    hour: int
    kwh: float


class Meter(TypedDict):
    meter: str
    lines: int
    kwh_by_hour: dict[str, float]


def to_usages(lines: list[Fields], _arrival: Arrival, _master: MasterData) -> Iterator[Draft]:
    for line in lines:
        yield Draft("usage", line["hour"] * _HOUR_MS, line)


def new_meter(meter: str) -> Fields:
    return {"meter": meter, "lines": 0, "kwh_by_hour": {}}


def fold(state: Fields, event: Event) -> Fields:
    hour = str(event.data["hour"])
    return {
        **state,
        "lines": state["lines"] + 1,
        "kwh_by_hour": {**state["kwh_by_hour"], hour: event.data["kwh"]},
    }


FLOW = Flow(
    endpoints=(Endpoint("day", to_usages, emits=("usage",), payload=list[Line], formats=(Csv(),)),),
    event_types=(EventType("usage", data=Usage),),
    entities=(Entity("meter", folds=("usage",), initial=new_meter, fold=fold, state=Meter),),
)
