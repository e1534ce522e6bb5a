"""Whether what a device says of the time is to be believed. Pure."""

from shared.folding.snapshot import Newest

# A device's time counts as it says it within these; beyond, its clock is off, and arrival counts.
# Ahead of its arrival:
CLOCK_AHEAD_MAX_MS = 5 * 60 * 1000
# before its arrival and before the newest of its type, too: history that is sent in comes in order
CLOCK_BEHIND_MAX_MS = 7 * 24 * 3600 * 1000


def is_clock_off(time_ms: int, arrived_ms: int, newest: Newest | None) -> bool:
    """Whether what the device says of the time is to be believed no more. A clock that fell back
    would make all that comes late, for as long as it is wrong, and freeze the state."""
    if time_ms > arrived_ms + CLOCK_AHEAD_MAX_MS:
        return True
    return newest is not None and time_ms < min(arrived_ms, newest[0]) - CLOCK_BEHIND_MAX_MS
