"""Endpoint `status`: a device, or whoever watches over it, says whether it is online, or that it
was taken out of service."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from shared.model import Arrival, Draft, Fields, MasterData
from shared.sent_at import sent_at_ms


class StatusPayload(TypedDict):
    status: Literal["online", "offline", "retired"]
    at: NotRequired[str]


class StatusChanged(TypedDict):
    status: Literal["online", "offline"]


class Retired(TypedDict):
    """Nothing more is known of it."""


def to_status_changed(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    """Needs no master data: also a device that nobody has registered yet can be offline."""
    time_ms = sent_at_ms(payload, arrival)
    if payload["status"] == "retired":
        return Draft("retired", time_ms, {})
    return Draft("status_changed", time_ms, {"status": payload["status"]})
