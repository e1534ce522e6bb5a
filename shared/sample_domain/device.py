"""Entity `device`: what its readings add up to, with a state machine that has hysteresis, and
whether it is online. When the machine goes into ALARM or leaves it, that is an event of its own."""

from typing import Literal

from typing_extensions import TypedDict

from shared.model import Draft, Event, Fields

ALARM_FROM = 80.0
ALARM_UNTIL_BELOW = 60.0
ACTIVE_FROM = 20.0
IDLE_BELOW = 15.0


class Device(TypedDict):
    device: str
    count: int
    value: float | None
    value_at_ms: int | None
    min: float | None
    max: float | None
    last_seen_ms: int | None
    area: str | None
    status: Literal["IDLE", "ACTIVE", "ALARM"]
    status_changes: int
    connection: Literal["online", "offline"] | None
    connection_at_ms: int | None


class Alarm(TypedDict):
    """What an alarm is raised by, and what it is cleared by."""

    value: float | None  # None: the device was retired
    area: str | None


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
        "connection": None,
        "connection_at_ms": None,
    }


def fold(state: Fields, event: Event) -> Fields:
    """The two types touch different fields, but for `last_seen_ms`, which takes the greatest: so
    their mutual order, which nobody promises, does not matter."""
    last_seen_ms = max(event.arrived_ms, state["last_seen_ms"] or event.arrived_ms)
    seen = {**state, "last_seen_ms": last_seen_ms}
    fold_its_type = _fold_status if event.type == "status_changed" else _fold_reading
    return fold_its_type(seen, event)


def _fold_status(state: Fields, event: Event) -> Fields:
    if event.late:
        return state
    return {**state, "connection": event.data["status"], "connection_at_ms": event.time_ms}


def _fold_reading(state: Fields, event: Event) -> Fields:
    """Counts and extremes take every reading; what is latest, and the machine, only newer ones."""
    value, lowest, highest = event.data["value"], state["min"], state["max"]
    new = {
        **state,
        "count": state["count"] + 1,
        "min": value if lowest is None or value < lowest else lowest,
        "max": value if highest is None or value > highest else highest,
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


def alarms(before: Fields, after: Fields, event: Event) -> tuple[Draft, ...]:
    """Only what drives the machine can raise or clear: a late reading never does."""
    was, now = before["status"] == "ALARM", after["status"] == "ALARM"
    if was == now:
        return ()
    area = after["area"] or before["area"]
    what = "alarm_raised" if now else "alarm_cleared"
    return (Draft(what, event.time_ms, {"value": after["value"], "area": area}),)


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
