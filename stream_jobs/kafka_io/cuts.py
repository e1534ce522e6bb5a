"""Where the next cut is. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from clients.kafka.records import NOTE, Partition

# among the offsets of a batch
CUT = f"{NOTE}cut"
_IDLE_MS_MIN, _IDLE_MS_MAX = 5_000, 60_000
Reached = Mapping[Partition, int]


def cut_of(told: Mapping[str, Any]) -> int:
    return int(told.get(CUT, {}).get("0", 0))


def next_cut(
    begins: Reached,
    up_to: Callable[[int], dict[Partition, int]],
    before_ms: int,
    guess_ms: int,
    now_ms: int,
    records_max: int,
) -> tuple[int, dict[Partition, int]]:
    """The cut, and how far it goes: to now, or so far that it is half to all of what a batch may
    have. One millisecond is never divided, however much it has."""

    def records(reached: Reached) -> int:
        return sum(reached[at] - begin for at, begin in begins.items())

    # the latest cut known to fit, and the earliest known to be too much
    fits_ms, fits = before_ms, dict[Partition, int]()
    too_late_ms, too_much = now_ms + 1, dict[Partition, int]()
    next_ms = min(guess_ms, now_ms)
    while too_late_ms - fits_ms > 1:
        reached = up_to(next_ms)
        if records(reached) > records_max:
            too_late_ms, too_much = next_ms, reached
        else:
            fits_ms, fits = next_ms, reached
            if next_ms == now_ms or 2 * records(fits) >= records_max:
                break
        next_ms = now_ms if too_late_ms > now_ms else (fits_ms + too_late_ms) // 2
    if fits and (records(fits) or not too_much):
        return fits_ms, fits
    return too_late_ms, too_much


def idle_pause_ms(idle_ms: int) -> int:
    """Until the next cut where nothing comes: seldomer, the longer that lasts."""
    return min(max(idle_ms // 10, _IDLE_MS_MIN), _IDLE_MS_MAX)
