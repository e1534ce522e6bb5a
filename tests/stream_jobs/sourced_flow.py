"""The kiosk's prices from a table of a shop, and tariffs from a topic that Debezium feeds. The
topic is `HEADRACE_TEST_TARIFFS`, where a test has its own."""

import os
from dataclasses import replace
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow
from shared.master_data import SqlSource, TopicSource
from shared.model import Table


class Price(TypedDict):
    article: str
    cents: Annotated[int, Field(ge=0)]
    name: NotRequired[str]


class Tariff(TypedDict):
    zone: str
    cents: int


PRICE = Table(
    "price",
    row=Price,
    key="article",
    source=SqlSource("shop", "stock.price", version="updated_at", every_s=0.2, late_s=0),
)
TARIFF = Table(
    "tariff",
    row=Tariff,
    key="zone",
    source=TopicSource(os.environ.get("HEADRACE_TEST_TARIFFS", "shop.tariff"), debezium=True),
)
FLOW: Flow = replace(SAMPLE, tables=(PRICE, TARIFF))
