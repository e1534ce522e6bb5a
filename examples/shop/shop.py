"""Orders with stock and payment, a saga: all of the domain is this file.

    PYTHONPATH=examples/shop HEADRACE_FLOW=shop:FLOW ./headrace up
    curl -d '{"quantity": 10, "price": 250}' localhost:8080/v1/delivery/tea
    curl -d '{"customer": "c-1", "sku": "tea", "quantity": 2}' localhost:8080/v1/order/o-1

An order reserves its goods, then somebody else's code takes the payment, and another one ships.
Each of these steps may be refused, answered twice, or never answered at all:

    placed ─▶ reservation_asked ─▶ reserved ─▶ payment_asked ─▶ paid ─▶ shipping_asked ─▶ shipped
                     │                              ├─▶ payment_failed ────────┐
                     └─▶ out_of_stock               └─▶ take_payment_timed_out ┴─▶ released

An order decides by its own log: of an answer and a time-out, what stands there first counts. If the
money comes all the same, it is given back.
"""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from shared.actions import Action, TimedOut
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
    NotYet,
)
from shared.retry_policy import RetryPolicy

Text = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
PAYS_WITHIN_S = 30.0
# they race, so each order's log says which of them came first
ORDERS, STOCK = "orders", "stock"


class Delivery(TypedDict):
    quantity: Count
    price: Count


class Placing(TypedDict):
    customer: Text
    sku: Text
    quantity: Count


class Placed(TypedDict):
    customer: str
    sku: str
    quantity: int
    amount: int


class Reservation(TypedDict):
    order: str
    quantity: int


class OfOrder(TypedDict):
    order: str


class Nothing(TypedDict): ...


class Payment(TypedDict):  # the answer of who takes payments
    asked: Text  # id of the event that asked for it
    payment: Text | None  # None: it failed
    why: Text | None


class Shipment(TypedDict):
    asked: Text


class Refund(TypedDict):
    asked: Text
    payment: Text


class Paid(TypedDict):
    payment: str


class Failed(TypedDict):
    why: str


class PaymentAsked(TypedDict):
    customer: str
    amount: int


class OfPayment(TypedDict):  # what is to be refunded, or was
    payment: str


class ShippingAsked(TypedDict):
    sku: str
    quantity: int


class Order(TypedDict):
    order: str
    status: str
    customer: str | None
    sku: str | None
    quantity: int
    amount: int
    why: str | None  # it was cancelled
    payments: dict[str, str]  # what was taken: kept, to be refunded or refunded


class Stock(TypedDict):
    sku: str
    price: int | None
    free: int
    reserved: dict[str, int]  # by order
    sold: int


# what is posted -> events


def to_stocked(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("stocked", arrival.at_ms, payload)


def to_placed(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    """At the price that is known now, whatever becomes of it later."""
    stock = master.state("stock", payload["sku"])
    if stock is None:
        raise NotYet(f"there is no price of {payload['sku']} yet")
    amount = payload["quantity"] * stock["price"]
    return Draft("placed", arrival.at_ms, {**payload, "amount": amount})


def to_payment(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    if payload["payment"] is None:
        return Draft("payment_failed", arrival.at_ms, {"why": payload["why"] or "no reason given"})
    return Draft("paid", arrival.at_ms, {"payment": payload["payment"]})


def to_shipped(_payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("shipped", arrival.at_ms, {})


def to_refunded(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("refunded", arrival.at_ms, {"payment": payload["payment"]})


# an order


def new_order(order: str) -> Fields:
    nobodys = {"customer": None, "sku": None, "quantity": 0, "amount": 0}
    return {"order": order, "status": "new", **nobodys, "why": None, "payments": {}}


def fold_order(state: Fields, event: Event) -> Fields:
    """What does not fit the order's status has come before, or too late: it changes nothing but
    what is known of the money."""
    status, data = state["status"], event.data
    match event.type, status:
        case "placed", "new":
            return {**state, "status": "reserving", **data}
        case "reserved", "reserving":
            return {**state, "status": "paying"}
        case "out_of_stock", "reserving":
            return {**state, "status": "cancelled", "why": "out of stock"}
        case "paid", _ if data["payment"] not in state["payments"]:
            if status == "paying":
                payments = {**state["payments"], data["payment"]: "kept"}
                return {**state, "status": "shipping", "payments": payments}
            return _of_payment(state, data["payment"], "to be refunded")
        case "payment_failed", "paying":
            return {**state, "status": "cancelled", "why": data["why"]}
        case "take_payment_timed_out", "paying":
            return {**state, "status": "cancelled", "why": "no payment in time"}
        case "shipped", "shipping":
            return {**state, "status": "shipped"}
        case "refunded", _ if state["payments"].get(data["payment"]) == "to be refunded":
            return _of_payment(state, data["payment"], "refunded")
    return state


def _of_payment(state: Fields, payment: str, becomes: str) -> Fields:
    return {**state, "payments": {**state["payments"], payment: becomes}}


def asks_of_order(before: Fields, after: Fields, event: Event) -> list[Draft]:
    """What an order asks for when it has come a step further."""

    def ask(kind: str, data: Fields, whose: str | None = None) -> list[Draft]:
        return [Draft(kind, event.time_ms, data, whose)]

    its: Fields = {"order": after["order"]}
    goods: Fields = {"sku": after["sku"], "quantity": after["quantity"]}
    match before["status"], after["status"]:
        case "new", "reserving":
            reservation = {**its, "quantity": after["quantity"]}
            return ask("reservation_asked", reservation, after["sku"])
        case "reserving", "paying":
            payment = {"customer": after["customer"], "amount": after["amount"]}
            return ask("payment_asked", payment)
        case "paying", "shipping":
            return ask("shipping_asked", goods)
        case "paying", "cancelled":
            return ask("released", its, after["sku"])
        case "shipping", "shipped":
            return ask("sold", its, after["sku"])
    if event.type == "paid" and after != before:
        return ask("refund_asked", {"payment": event.data["payment"]})
    return []


def waits_for_payment(order: Fields, _asked: Event) -> bool:
    return bool(order["status"] == "paying")


# the stock of a sku


def new_stock(sku: str) -> Fields:
    return {"sku": sku, "price": None, "free": 0, "reserved": {}, "sold": 0}


def fold_stock(state: Fields, event: Event) -> Fields:
    data = event.data
    if event.type == "stocked":
        return {**state, "free": state["free"] + data["quantity"], "price": data["price"]}
    order, reserved = data["order"], state["reserved"]
    if event.type == "reservation_asked":
        if order in reserved or data["quantity"] > state["free"]:
            return state
        reserved = {**reserved, order: data["quantity"]}
        return {**state, "free": state["free"] - data["quantity"], "reserved": reserved}
    if order not in reserved:
        return state
    goods = "sold" if event.type == "sold" else "free"
    others = {one: quantity for one, quantity in reserved.items() if one != order}
    return {**state, goods: state[goods] + reserved[order], "reserved": others}


def answers_of_stock(_before: Fields, after: Fields, event: Event) -> list[Draft]:
    if event.type != "reservation_asked":
        return []
    order = event.data["order"]
    kind = "reserved" if order in after["reserved"] else "out_of_stock"
    return [Draft(kind, event.time_ms, {}, order)]


FLOW = Flow(
    endpoints=(
        Endpoint("delivery", to_stocked, emits=("stocked",), payload=Delivery),
        Endpoint(
            "order",
            to_placed,
            emits=("placed",),
            payload=Placing,
            states=("stock",),
            retry=RetryPolicy(first_pause_s=1, pause_max_s=30),
        ),
        Endpoint("payment", to_payment, emits=("paid", "payment_failed"), payload=Payment),
        Endpoint("shipment", to_shipped, emits=("shipped",), payload=Shipment),
        Endpoint("refund", to_refunded, emits=("refunded",), payload=Refund),
    ),
    event_types=(
        EventType("stocked", data=Delivery, stream=STOCK),
        EventType("reservation_asked", data=Reservation, stream=STOCK),
        EventType("released", data=OfOrder, stream=STOCK),
        EventType("sold", data=OfOrder, stream=STOCK),
        EventType("placed", data=Placed, stream=ORDERS),
        EventType("reserved", data=Nothing, stream=ORDERS),
        EventType("out_of_stock", data=Nothing, stream=ORDERS),
        EventType("paid", data=Paid, stream=ORDERS),
        EventType("payment_failed", data=Failed, stream=ORDERS),
        EventType("take_payment_timed_out", data=TimedOut, stream=ORDERS),
        EventType("shipped", data=Nothing, stream=ORDERS),
        EventType("refunded", data=OfPayment, stream=ORDERS),
        EventType("payment_asked", data=PaymentAsked),
        EventType("shipping_asked", data=ShippingAsked),
        EventType("refund_asked", data=OfPayment),
    ),
    entities=(
        Entity(
            "order",
            folds=(
                "placed",
                "reserved",
                "out_of_stock",
                "paid",
                "payment_failed",
                "take_payment_timed_out",
                "shipped",
                "refunded",
            ),
            initial=new_order,
            fold=fold_order,
            state=Order,
            derive=asks_of_order,
            emits=(
                "reservation_asked",
                "payment_asked",
                "shipping_asked",
                "refund_asked",
                "released",
                "sold",
            ),
            # an order and its stock talk to each other, and this says that they come to an end
            emits_on={
                "placed": ("reservation_asked",),
                "reserved": ("payment_asked",),
                "out_of_stock": (),
                "paid": ("shipping_asked", "refund_asked"),
                "payment_failed": ("released",),
                "take_payment_timed_out": ("released",),
                "shipped": ("sold",),
                "refunded": (),
            },
        ),
        Entity(
            "stock",
            folds=("stocked", "reservation_asked", "released", "sold"),
            initial=new_stock,
            fold=fold_stock,
            state=Stock,
            derive=answers_of_stock,
            emits=("reserved", "out_of_stock"),
            emits_on={"stocked": (), "released": (), "sold": ()},
        ),
    ),
    actions=(
        Action(
            "take_payment",
            ignited_by="payment_asked",
            group="payments",
            answered_at="payment",
            within_s=PAYS_WITHIN_S,
            entity="order",
            waits=waits_for_payment,
        ),
        # it leaves the house when its row is durable
        Action(
            "ship",
            ignited_by="shipping_asked",
            after="completion",
            group="warehouse",
            answered_at="shipment",
        ),
        Action("refund", ignited_by="refund_asked", group="payments", answered_at="refund"),
    ),
)
