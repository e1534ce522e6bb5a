"""Entity `device`: what its readings add up to, with a state machine that has hysteresis."""

from shared.model import Event, Fields

ALARM_FROM = 80.0
ALARM_UNTIL_BELOW = 60.0
ACTIVE_FROM = 20.0
IDLE_BELOW = 15.0


def initial(entity_id: str) -> Fields:
    return {
        "device": entity_id,
        "count": 0,
        "value": None,
        "value_at_ms": None,
        "min": None,
        "max": None,
        "last_seen_ms": None,
        "area": None,
        "status": "IDLE",
        "status_changes": 0,
    }


def fold(state: Fields, event: Event) -> Fields:
    """Counts and extremes take every reading; what is latest, and the machine, only newer ones."""
    value = event.data["value"]
    lowest, highest, last_seen_ms = state["min"], state["max"], state["last_seen_ms"]
    new = {
        **state,
        "count": state["count"] + 1,
        "min": value if lowest is None or value < lowest else lowest,
        "max": value if highest is None or value > highest else highest,
        "last_seen_ms": max(event.arrived_ms, last_seen_ms or event.arrived_ms),
    }
    if event.late:
        return new
    status = next_status(state["status"], value)
    new["value"] = value
    new["value_at_ms"] = event.time_ms
    new["area"] = event.data["area"]
    new["status_changes"] += status != state["status"]
    new["status"] = status
    return new


def next_status(status: str, value: float) -> str:
    if value >= ALARM_FROM:
        return "ALARM"
    if value < IDLE_BELOW:
        return "IDLE"
    if status == "ALARM":
        return "ALARM" if value >= ALARM_UNTIL_BELOW else "ACTIVE"
    if status == "ACTIVE":
        return "ACTIVE"
    return "ACTIVE" if value >= ACTIVE_FROM else "IDLE"
