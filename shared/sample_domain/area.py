"""Aggregate `area`: what the devices in it add up to, each with its latest state."""

from typing_extensions import TypedDict

from shared.model import Fields, Share


class Area(TypedDict):
    area: str
    devices: int
    alarms_now: int  # devices that are in ALARM
    readings: int
    value: float | None  # the latest reading of all
    value_at_ms: int | None
    value_of: str | None  # the device that sent it
    highest: float | None


def share(device: Fields) -> Share | None:
    """A device belongs to the area of its latest reading; before its first one, to none."""
    if device["area"] is None:
        return None
    return Share(
        device["area"],
        {
            "devices": 1,
            "alarms_now": int(device["status"] == "ALARM"),
            "readings": device["count"],
            "value": device["value"],
            "value_at_ms": device["value_at_ms"],
            "value_of": device["device"],
            "highest": device["max"],
        },
    )


def add(one: Fields, other: Fields) -> Fields:
    # of two readings of the same moment the id decides, so that the order of adding never does
    latest = max(one, other, key=lambda share: (share["value_at_ms"], share["value_of"]))
    return {
        "devices": one["devices"] + other["devices"],
        "alarms_now": one["alarms_now"] + other["alarms_now"],
        "readings": one["readings"] + other["readings"],
        "value": latest["value"],
        "value_at_ms": latest["value_at_ms"],
        "value_of": latest["value_of"],
        "highest": max(one["highest"], other["highest"]),
    }


def total(area_id: str, shares: Fields | None) -> Fields:
    empty = {"value": None, "value_at_ms": None, "value_of": None, "highest": None}
    return {"area": area_id, **(shares or {"devices": 0, "alarms_now": 0, "readings": 0, **empty})}
