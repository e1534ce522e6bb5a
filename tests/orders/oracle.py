"""What an order must be, by what was accepted in which order. Written from the words of the domain;
it shares no rule with its fold."""

from collections.abc import Iterable
from typing import Any

TYPES = {
    "order": "opened",
    "line": "line_added",
    "payment": "paid",
    "cancellation": "cancelled",
}
ENDS = ("payment", "cancellation")


def expected_order(order: str, accepted: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """`accepted`: endpoint and payload, in the order of acceptance."""
    history = list(accepted)
    opened_at = next((n for n, (kind, _) in enumerate(history) if kind == "order"), len(history))
    ends = [n for n, (kind, _) in enumerate(history) if n > opened_at and kind in ENDS]
    ended_at = ends[0] if ends else len(history)
    quantities: dict[str, int] = {}
    refused = []
    for number, (kind, said) in enumerate(history):
        counts = number == opened_at or (opened_at < number <= ended_at and kind != "order")
        if not counts:
            refused.append(TYPES[kind])
        elif kind == "line":
            quantities[said["sku"]] = quantities.get(said["sku"], 0) + said["quantity"]
    end = history[ended_at] if ends else ("", {})
    status = {"payment": "paid", "cancellation": "cancelled"}.get(end[0], "open")
    return {
        "order": order,
        "status": status if opened_at < len(history) else "unknown",
        "customer": history[opened_at][1]["customer"] if opened_at < len(history) else None,
        "quantities": quantities,
        "paid": end[1].get("amount"),
        "cancelled_because": end[1].get("reason"),
        "refused": refused,
    }
