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

    # what is enough and what is too much, coming closer
    few_ms, many_ms, enough = before_ms, now_ms + 1, dict[Partition, int]()
    next_ms = min(guess_ms, now_ms)
    while True:
        reached = up_to(next_ms)
        if records(reached) > records_max:
            many_ms = next_ms
        else:
            few_ms, enough = next_ms, reached
            if next_ms == now_ms or 2 * records(enough) >= records_max:
                return few_ms, enough
        if many_ms - few_ms <= 1:
            break
        next_ms = now_ms if many_ms > now_ms else (few_ms + many_ms) // 2
    if enough and records(enough):
        return few_ms, enough
    return many_ms, up_to(many_ms)


def idle_pause_ms(idle_ms: int) -> int:
    """Until the next cut where nothing comes: seldomer, the longer that lasts."""
    return min(max(idle_ms // 10, _IDLE_MS_MIN), _IDLE_MS_MAX)
