"""Kiosks that sell by article number: all of the domain is this file, its prices are master data.

    export PYTHONPATH=examples/kiosk HEADRACE_FLOW=kiosk:FLOW
    ./headrace up
    curl -d '{"article": "cola", "count": 2}' localhost:8080/v1/sale/kiosk-1
    ./headrace master set price cola '{"cents": 150}'

What is sold before it has a price waits for it, and what its kiosk sells later waits behind it.
"""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.model import (
    Arrival,
    Draft,
    Endpoint,
    Entity,
    Event,
    EventType,
    Example,
    Fields,
    MasterData,
    MissingMasterData,
    Table,
)


class Sale(TypedDict):
    article: Annotated[str, Field(min_length=1, max_length=40)]
    count: Annotated[int, Field(ge=1, le=1000)]


class Price(TypedDict):
    article: str
    cents: Annotated[int, Field(ge=0)]
    name: NotRequired[str]


class Sold(TypedDict):
    article: str
    count: int
    cents: int


class Kiosk(TypedDict):
    kiosk: str
    cents: int
    articles: list[str]  # in the order in which they were sold


def to_sold(sale: Fields, arrival: Arrival, master: MasterData) -> Draft:
    price = master.find("price", sale["article"])
    if price is None:
        raise MissingMasterData("price", sale["article"])
    return Draft("sold", arrival.at_ms, {**sale, "cents": sale["count"] * price["cents"]})


def new_kiosk(kiosk: str) -> Fields:
    return {"kiosk": kiosk, "cents": 0, "articles": []}


def fold(state: Fields, event: Event) -> Fields:
    return {
        **state,
        "cents": state["cents"] + event.data["cents"],
        "articles": [*state["articles"], event.data["article"]],
    }


FLOW = Flow(
    endpoints=(
        Endpoint(
            "sale",
            to_sold,
            emits=("sold",),
            master=("price",),
            payload=Sale,
            example=Example("kiosk-1", {"article": "cola", "count": 2}),
        ),
    ),
    event_types=(EventType("sold", data=Sold),),
    entities=(Entity("kiosk", folds=("sold",), initial=new_kiosk, fold=fold, state=Kiosk),),
    tables=(Table("price", row=Price, key="article"),),
)
