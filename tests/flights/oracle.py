"""What the state of each flight must be, written apart from its fold: by looking at all of a
flight's events at once."""

from typing import Any

Event = dict[str, Any]


def expected_flights(events: list[Event]) -> dict[str, dict[str, Any]]:
    """`events` are the distinct values of the event topics, each topic in log order."""
    return {name: _flight(name, events) for name in {event["entity_id"] for event in events}}


def _flight(name: str, events: list[Event]) -> dict[str, Any]:
    of_type: dict[str, list[Event]] = {}
    for event in events:
        if event["entity_id"] == name:
            of_type.setdefault(event["type"], []).append(event)
    heard = {kind: _what_was_news(own) for kind, own in of_type.items()}
    last = {kind: news[-1] for kind, news in heard.items()}
    schedule, delay = last.get("scheduled"), last.get("delayed")
    gates = [event["data"]["gate"] for event in heard.get("gate_changed", [])]
    minutes = delay["data"]["minutes"] if delay else 0
    status = next((s for s in ("cancelled", "arrived", "departed") if s in last), None)
    if status is None:
        status = "delayed" if minutes else "scheduled" if schedule else "unknown"
    return {
        "flight": name,
        "status": status,
        "origin": schedule and schedule["data"]["origin"],
        "destination": schedule and schedule["data"]["destination"],
        "gate": gates[-1] if gates else None,
        "gate_before": gates[-2] if len(gates) > 1 else None,
        "delay_minutes": minutes,
        "departed_at_ms": _time_ms(last["departed"]) if "departed" in last else None,
        "arrived_at_ms": _time_ms(last["arrived"]) if "arrived" in last else None,
        "cancelled_because": last["cancelled"]["data"]["reason"] if "cancelled" in last else None,
    }


def _what_was_news(log: list[Event]) -> list[Event]:
    """Without those that came after a newer one."""
    return [
        event
        for place, event in enumerate(log)
        if all(_age_order(event) >= _age_order(earlier) for earlier in log[:place])
    ]


def _age_order(event: Event) -> tuple[int, int, int]:
    return (_time_ms(event), event["arrived_ms"], event["origin"][2])


def _time_ms(event: Event) -> int:
    said, arrived = int(event["time_ms"]), int(event["arrived_ms"])
    return arrived if said - arrived > 300_000 else said
