"""What gateways say to each other: paths, their token, and a state as it is told. Pure."""

from collections.abc import Mapping
from typing import Any

from gateway.state_view.parts import is_divided
from gateway.state_view.reader import Found, Progress
from shared.settings import GatewaySettings

PREFIX = "/peers/"
HELD_PATH, STATES_PATH = f"{PREFIX}held", f"{PREFIX}states"
KEYS_MAX = 100
# what reading an answer that is none may raise
NO_ANSWER = KeyError, TypeError, AttributeError, ValueError
_HELD_WITHIN_MS = 5_000


def bearer(settings: GatewaySettings) -> dict[str, str]:
    return {"authorization": f"Bearer {settings.peer_secret}"}


def held(progress: Mapping[str, Progress], at_ms: int) -> list[str]:
    """Parts that others need hold no longer: it is not enough that they were read once."""
    return [
        part
        for part, its in progress.items()
        if is_divided(part) and its.warm and at_ms - (its.caught_up_ms or 0) <= _HELD_WITHIN_MS
    ]


def told(progress: Progress, found: Found | None, at_ms: int) -> dict[str, Any] | None:
    """With the age of the copy, for clocks differ. None: it is not held, or not all of its part
    yet."""
    if not progress.warm or progress.caught_up_ms is None:
        return None
    state = found and {**found._asdict(), "value": found.value.decode()}
    return {"age_ms": max(0, at_ms - progress.caught_up_ms), "state": state}


def read(told: Mapping[str, Any], at_ms: int) -> tuple[Progress, Found | None]:
    """One of NO_ANSWER where it is no such answer."""
    progress, state = Progress(True, at_ms - int(told["age_ms"])), told["state"]
    if state is None:
        return progress, None
    value, *numbers = (state[name] for name in Found._fields)
    return progress, Found(value.encode(), *map(int, numbers))
