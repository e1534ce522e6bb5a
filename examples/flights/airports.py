"""Airports, on top of flights: what the flights that leave from there add up to.

PYTHONPATH=examples/flights HEADRACE_FLOW=airports:FLOW ./headrace up
"""

from dataclasses import replace

import flights
from typing_extensions import TypedDict

from shared.model import Aggregate, Fields, Share

COUNTED = ("delayed", "departed", "arrived", "cancelled")


class Airport(TypedDict):
    airport: str
    flights: int
    delayed: int
    departed: int
    arrived: int
    cancelled: int


def share(flight: Fields) -> Share | None:
    """What one flight adds; None while nobody has said where it leaves from."""
    if flight["origin"] is None:
        return None
    counts = {status: int(flight["status"] == status) for status in COUNTED}
    return Share(flight["origin"], {"flights": 1, **counts})


def add(one: Fields, other: Fields) -> Fields:
    return {name: one[name] + other[name] for name in one}


def total(airport: str, counts: Fields | None) -> Fields:
    return {"airport": airport, **(counts or dict.fromkeys(("flights", *COUNTED), 0))}


FLOW = replace(
    flights.FLOW,
    aggregates=(
        Aggregate("airport", members="flight", share=share, add=add, total=total, state=Airport),
    ),
)
