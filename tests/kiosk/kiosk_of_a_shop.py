"""The kiosk whose prices stand in a shop's own database, each from a time on."""

from dataclasses import replace

import kiosk

from shared.flow_table import Flow
from shared.master_data import SqlSource
from shared.model import Arrival, Draft, Fields, MasterData, MissingMasterData, Table


class Price(kiosk.Price):
    from_ms: int


def to_sold(sale: Fields, arrival: Arrival, master: MasterData) -> Draft:
    price = master.find_at("price", sale["article"], arrival.at_ms)
    if price is None:
        raise MissingMasterData("price", sale["article"])
    return Draft("sold", arrival.at_ms, {**sale, "cents": sale["count"] * price["cents"]})


PRICE = Table(
    "price",
    row=Price,
    key="article",
    valid_from="from_ms",
    source=SqlSource("shop", "stock.rate", version="updated_at", every_s=0.5, late_s=1),
)
FLOW: Flow = replace(
    kiosk.FLOW,
    endpoints=tuple(replace(row, enrich=to_sold) for row in kiosk.FLOW.endpoints),
    tables=(PRICE,),
)
