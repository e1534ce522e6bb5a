"""The parts that a load costs something, and how often it does."""

from math import exp

JOBS = ("enrich", "fold", "persist")
PARTS = ("gateway", "view", "kafka", *JOBS, "relay", "postgres")


def touched(events: float, entities: float) -> float:
    """How many different entities so many events have, which are spread evenly over them."""
    return entities * (1 - exp(-events / entities)) if entities else 0.0
