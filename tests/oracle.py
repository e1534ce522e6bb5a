"""What the state of each device must be: a plain fold, written apart from the product's."""

from typing import Any


def expected_states(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`events` are the distinct values of the event topic, each entity's in log order."""
    states: dict[str, dict[str, Any]] = {}
    newest: dict[str, tuple[int, int, int]] = {}
    for event in events:
        device, value = event["entity_id"], event["data"]["value"]
        time_ms = min(event["time_ms"], event["arrived_ms"] + 300_000)
        place = (time_ms, event["arrived_ms"], event["origin"][2])
        state = states.setdefault(device, {"count": 0, "status": "IDLE", "status_changes": 0})
        state["count"] += 1
        state["min"] = min(value, state.get("min", value))
        state["max"] = max(value, state.get("max", value))
        state["last_seen_ms"] = max(event["arrived_ms"], state.get("last_seen_ms", 0))
        if device in newest and place < newest[device]:
            continue
        newest[device] = place
        status = _status(state["status"], value)
        state["status_changes"] += int(status != state["status"])
        state.update(
            device=device,
            value=value,
            value_at_ms=time_ms,
            area=event["data"]["area"],
            status=status,
        )
    return states


def _status(status: str, value: float) -> str:
    if value >= 80:
        return "ALARM"
    if value < 15:
        return "IDLE"
    if value >= 60 and status == "ALARM":
        return "ALARM"
    if status in ("ACTIVE", "ALARM") or value >= 20:
        return "ACTIVE"
    return "IDLE"
