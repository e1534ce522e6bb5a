"""Where the next cut is. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from clients.kafka.records import NOTE, Partition

# among the offsets of a batch
CUT = f"{NOTE}cut"
_IDLE_MS_MIN, _IDLE_MS_MAX = 5_000, 60_000
# of what a batch may have: what is aimed at, and what is enough. A log may be so uneven that a few
# looks do not find it
_AIM, _ENOUGH, _ENOUGH_LATER = 0.93, 0.85, 0.5
_LOOKS_THAT_AIM = 8
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
    """The cut, and how far it goes: to now, or so far that it is most of what a batch may have.
    One millisecond is never divided, however much it has."""

    def records(reached: Reached) -> int:
        return sum(reached[at] - begin for at, begin in begins.items())

    # the latest cut known to fit, and the earliest known to be too much
    fits_ms, fits = before_ms, dict[Partition, int]()
    too_late_ms, too_much = now_ms + 1, dict[Partition, int]()
    next_ms, looks = min(guess_ms, now_ms), 0
    while too_late_ms - fits_ms > 1:
        reached, looks = up_to(next_ms), looks + 1
        if records(reached) > records_max:
            too_late_ms, too_much = next_ms, reached
        else:
            fits_ms, fits = next_ms, reached
            enough = _ENOUGH if looks <= _LOOKS_THAT_AIM else _ENOUGH_LATER
            if next_ms == now_ms or records(fits) >= enough * records_max:
                break
        if too_late_ms > now_ms:
            next_ms = now_ms
        elif fits_ms and looks <= _LOOKS_THAT_AIM:
            have = records(fits) if fits else 0
            share = (_AIM * records_max - have) / (records(too_much) - have)
            aimed_ms = fits_ms + round(share * (too_late_ms - fits_ms))
            next_ms = min(max(aimed_ms, fits_ms + 1), too_late_ms - 1)
        else:
            next_ms = (fits_ms + too_late_ms) // 2
    if fits and (records(fits) or not too_much):
        return fits_ms, fits
    return too_late_ms, too_much


def idle_pause_ms(idle_ms: int) -> int:
    """Until the next cut where nothing comes: seldomer, the longer that lasts."""
    return min(max(idle_ms // 10, _IDLE_MS_MIN), _IDLE_MS_MAX)
