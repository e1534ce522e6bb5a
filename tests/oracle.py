"""What the state of each device must be: a plain fold, written apart from the product's, from
DESIGN 3.10 and docs/your-own-domain.md. It imports nothing of the product."""

from typing import Any

# device -> how many of its events came late, and of how many its clock was off
Clocks = dict[str, tuple[int, int]]

_NOTHING_YET: dict[str, Any] = {
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


def expected_states(
    events: list[dict[str, Any]],
    alarms: set[tuple[str, str]] | None = None,
    clocks: Clocks | None = None,
) -> dict[str, dict[str, Any]]:
    """`events` are the distinct values of the event topics, each topic in log order. `alarms` gets
    the id of each that raises or clears one, and which of the two; `clocks` the counts of what came
    late or with a clock that was off."""
    states: dict[str, dict[str, Any]] = {}
    newest: dict[tuple[str, str], tuple[int, int, int]] = {}
    for event in events:
        device = event["entity_id"]
        time_ms = _believed_ms(event, newest.get((device, event["type"])))
        place = (time_ms, event["arrived_ms"], event["origin"][2])
        state = states.setdefault(device, _NOTHING_YET | {"device": device})
        state["last_seen_ms"] = max(event["arrived_ms"], state["last_seen_ms"] or 0)
        late = place < newest.get((device, event["type"]), place)
        if clocks is not None:
            was_late, was_off = clocks.get(device, (0, 0))
            clocks[device] = was_late + late, was_off + (time_ms != event["time_ms"])
        if not late:
            newest[device, event["type"]] = place
        if event["type"] == "status_changed":
            if not late:
                state.update(connection=event["data"]["status"], connection_at_ms=time_ms)
            continue
        value = event["data"]["value"]
        lowest, highest = state["min"], state["max"]
        state["count"] += 1
        state["min"] = value if lowest is None else min(value, lowest)
        state["max"] = value if highest is None else max(value, highest)
        if late:
            continue
        status = _status(state["status"], value)
        state["status_changes"] += int(status != state["status"])
        if alarms is not None and (status == "ALARM") != (state["status"] == "ALARM"):
            alarms.add((event["id"], f"alarm_{'raised' if status == 'ALARM' else 'cleared'}"))
        state.update(
            value=value,
            value_at_ms=time_ms,
            area=event["data"]["area"],
            status=status,
        )
    return states


def expected_areas(devices: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the areas must be, given the last state of every device."""
    areas: dict[str, dict[str, Any]] = {}
    for area in {state["area"] for state in devices.values()} - {None}:
        there = [state for state in devices.values() if state["area"] == area]
        latest = max(there, key=lambda state: (state["value_at_ms"], state["device"]))
        areas[area] = {
            "area": area,
            "devices": len(there),
            "alarms_now": sum(state["status"] == "ALARM" for state in there),
            "readings": sum(state["count"] for state in there),
            "value": latest["value"],
            "value_at_ms": latest["value_at_ms"],
            "value_of": latest["device"],
            "highest": max(state["max"] for state in there),
        }
    return areas


def _believed_ms(event: dict[str, Any], newest: tuple[int, int, int] | None) -> int:
    """A clock that is more than 5 minutes ahead of arrival is off, and one that is more than 7 days
    before both arrival and the newest event of the type: then arrival counts."""
    said, arrived = int(event["time_ms"]), int(event["arrived_ms"])
    ahead_s, behind_s = (said - arrived) / 1000, (arrived - said) / 1000
    fell_back = newest is not None and behind_s > 604_800 and (newest[0] - said) / 1000 > 604_800
    return arrived if ahead_s > 300 or fell_back else said


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
