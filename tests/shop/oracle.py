"""What must be true of a shop, from the words of the domain; no rule is shared with its folds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Said = tuple[str, dict[str, Any]]  # type and data of an event
ENDS = ("paid", "payment_failed", "take_payment_timed_out")


def expected_order(order: str, log: Iterable[Said]) -> dict[str, Any]:
    """By what stands in the order's log, each event once."""
    history = list(log)
    kinds = [kind for kind, _ in history]

    def first(*wanted: str, after: int = -1) -> int:
        found = (n for n, kind in enumerate(kinds) if kind in wanted and n > after)
        return next(found, len(kinds))

    placed_at = first("placed")
    answered_at = first("reserved", "out_of_stock", after=placed_at)
    has_goods = answered_at < len(kinds) and kinds[answered_at] == "reserved"
    ended_at = first(*ENDS, after=answered_at) if has_goods else len(kinds)
    end = kinds[ended_at] if ended_at < len(kinds) else None
    shipped_at = first("shipped", after=ended_at) if end == "paid" else len(kinds)
    payments: dict[str, str] = {}
    for number, (kind, said) in enumerate(history):
        if kind == "paid" and said["payment"] not in payments:
            payments[said["payment"]] = "kept" if number == ended_at else "to be refunded"
        if kind == "refunded" and payments.get(said["payment"]) == "to be refunded":
            payments[said["payment"]] = "refunded"
    said = history[placed_at][1] if placed_at < len(kinds) else {}
    status, why = "new", None
    if placed_at < len(kinds):
        status = "reserving"
    if answered_at < len(kinds):
        status, why = ("paying", None) if has_goods else ("cancelled", "out of stock")
    if end == "paid":
        status = "shipped" if shipped_at < len(kinds) else "shipping"
    elif end == "payment_failed":
        status, why = "cancelled", history[ended_at][1]["why"]
    elif end:
        status, why = "cancelled", "no payment in time"
    return {
        "order": order,
        "status": status,
        "customer": said.get("customer"),
        "sku": said.get("sku"),
        "quantity": said.get("quantity", 0),
        "amount": said.get("amount", 0),
        "why": why,
        "payments": payments,
    }


def what_is_wrong(
    delivered: Mapping[str, int],
    stocks: Mapping[str, dict[str, Any]],
    orders: Sequence[dict[str, Any]],
    taken: Mapping[str, Sequence[str]],
    refunded: Iterable[str],
) -> list[str]:
    """When all is over. `taken`: by order, the payments that were; `refunded`: payments."""
    wrong = []
    given_back = set(refunded)
    for sku, stock in stocks.items():
        gone = sum(o["quantity"] for o in orders if o["sku"] == sku and o["status"] == "shipped")
        if stock["sold"] != gone:
            wrong.append(f"{sku}: {stock['sold']} sold, {gone} shipped")
        if stock["reserved"]:
            wrong.append(f"{sku}: {stock['reserved']} is still reserved")
        if stock["free"] + gone != delivered[sku] or stock["free"] < 0:
            wrong.append(f"{sku}: {stock['free']} free, {gone} shipped, {delivered[sku]} delivered")
    for order in orders:
        its_id, paid = order["order"], set(taken.get(order["order"], ()))
        kept = paid - given_back
        if order["status"] not in ("shipped", "cancelled"):
            wrong.append(f"{its_id} is {order['status']}")
        if len(kept) != (order["status"] == "shipped"):
            wrong.append(f"{its_id} is {order['status']}, and {len(kept)} payments are kept")
        if "to be refunded" in order["payments"].values():
            wrong.append(f"{its_id} still waits for a refund")
        if paid != set(order["payments"]):
            wrong.append(f"{its_id} knows of {order['payments']}, and {paid} were taken")
    return wrong
