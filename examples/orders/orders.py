"""Orders, whose types of events must keep their order: all of the domain is this file.

    PYTHONPATH=examples/orders HEADRACE_FLOW=orders:FLOW ./headrace up

A shop opens an order, adds lines, pays it or cancels it, each by an endpoint of its own. The
endpoints are one stream, and so are the event types. So whatever was accepted first is folded
first: a payment never overtakes its order, and of a payment and a cancellation the first one wins.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData

STREAM = "orders"


class Opened(TypedDict):
    customer: str


class LineAdded(TypedDict):
    sku: str
    quantity: Annotated[int, Field(ge=1)]


class Paid(TypedDict):
    amount: Annotated[int, Field(ge=0)]  # in cents


class Cancelled(TypedDict):
    reason: str


class Order(TypedDict):
    order: str
    status: Literal["unknown", "open", "paid", "cancelled"]
    customer: str | None
    quantities: dict[str, int]  # by sku
    paid: int | None
    cancelled_because: str | None
    refused: list[str]  # types of what came too late, or too early


def to(event_type: str) -> Callable[[Fields, Arrival, MasterData], Draft]:
    """An enrichment that says what it was told, as an event of this type."""

    def as_it_came(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
        return Draft(event_type, arrival.at_ms, payload)

    return as_it_came


def initial(order: str) -> Fields:
    return {
        "order": order,
        "status": "unknown",
        "customer": None,
        "quantities": {},
        "paid": None,
        "cancelled_because": None,
        "refused": [],
    }


def fold(state: Fields, event: Event) -> Fields:
    """`event.late` is not asked: what was accepted first counts first, whatever its clock says."""
    opens = event.type == "opened"
    if state["status"] != ("unknown" if opens else "open"):
        return {**state, "refused": [*state["refused"], event.type]}
    data = event.data
    match event.type:
        case "opened":
            return {**state, "status": "open", "customer": data["customer"]}
        case "line_added":
            known = state["quantities"].get(data["sku"], 0)
            return {
                **state,
                "quantities": {**state["quantities"], data["sku"]: known + data["quantity"]},
            }
        case "paid":
            return {**state, "status": "paid", "paid": data["amount"]}
        case _:
            return {**state, "status": "cancelled", "cancelled_because": data["reason"]}


FLOW = Flow(
    endpoints=(
        Endpoint("order", to("opened"), ("opened",), payload=Opened, stream=STREAM),
        Endpoint("line", to("line_added"), ("line_added",), payload=LineAdded, stream=STREAM),
        Endpoint("payment", to("paid"), ("paid",), payload=Paid, stream=STREAM),
        Endpoint("cancellation", to("cancelled"), ("cancelled",), payload=Cancelled, stream=STREAM),
    ),
    event_types=(
        EventType("opened", data=Opened, stream=STREAM),
        EventType("line_added", data=LineAdded, stream=STREAM),
        EventType("paid", data=Paid, stream=STREAM),
        EventType("cancelled", data=Cancelled, stream=STREAM),
    ),
    entities=(
        Entity(
            "order",
            folds=("opened", "line_added", "paid", "cancelled"),
            initial=initial,
            fold=fold,
            state=Order,
        ),
    ),
)
