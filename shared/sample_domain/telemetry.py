"""Endpoint `telemetry`: what a device model sends, mapped to the common format of a `reading`.

A device model is one row of master data (`device_model`) that says where its value stands and what
it is measured in:

    {"value_field": "temp_f", "unit": "celsius", "scale": 0.5555555555555556, "offset": -17.7777778}

common value = raw value * scale + offset.
"""

from math import isfinite
from typing import Any, NotRequired

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from shared.model import Arrival, Draft, Fields, MasterData, MissingMasterData, Rejected
from shared.sent_at import sent_at_ms


class TelemetryPayload(TypedDict):
    """Beside it stands the field that the device's model names, and whatever else is sent."""

    at: NotRequired[str]


class Reading(TypedDict):
    value: FiniteFloat  # JSON has no other
    unit: str | None
    area: str
    model: str
    attributes: dict[str, Any]  # of the device, as master data had them
    rest: dict[str, Any]  # of the payload, as it came


def to_reading(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    device = _row(master, "device", arrival.entity_id, "area", "model")
    model = _row(master, "device_model", device["model"], "value_field")
    value_field = model["value_field"]
    raw = _number(payload, value_field)
    value = raw * model.get("scale", 1) + model.get("offset", 0)
    if not isfinite(value):
        raise Rejected("out_of_range", f"{value_field}: {raw} is too large to convert")
    return Draft(
        type="reading",
        time_ms=sent_at_ms(payload, arrival),
        data={
            "value": value,
            "unit": model.get("unit"),
            "area": device["area"],
            "model": device["model"],
            "attributes": device.get("attributes", {}),
            "rest": {k: v for k, v in payload.items() if k not in (value_field, "at")},
        },
    )


def _row(master: MasterData, table: str, key: str, *needed: str) -> Fields:
    row = master.find(table, key)
    if row is None or any(name not in row for name in needed):
        raise MissingMasterData(table, key)
    return row


def _number(payload: Fields, name: str) -> int | float:
    if name not in payload:
        raise Rejected("field_missing", f"{name}: this device model sends it, the payload does not")
    value: Any = payload[name]
    # bool is an int to Python, never to a device
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected("wrong_type", f"{name}: a number is expected, not {type(value).__name__}")
    return value
