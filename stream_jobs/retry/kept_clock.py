"""The clock of a bucket's lines, in its state: as long as any of them waits."""

from collections.abc import Callable

import orjson

from stream_jobs.state.bulk_map_state import Key, ManyStates
from stream_jobs.waiting.lane_clock import LaneClock
from stream_jobs.waiting.protocol import AT_ONCE

_NAME: Key = ("clock", "", "")


class KeptClock:
    def __init__(self, states: ManyStates, holds_ms: int) -> None:
        self._states = states
        self._holds_ms = holds_ms
        self._asked: Callable[[], list[bytes | None]]
        self._is_kept = False

    def begin(self) -> None:
        self._asked = self._states.ask([_NAME])

    def at(self, now_ms: int, as_of_ms: int | None) -> LaneClock:
        """In a batch. Where nothing has waited it begins as one that runs."""
        (raw,) = self._asked()
        self._is_kept = raw is not None
        known = LaneClock(*orjson.loads(raw)) if raw else LaneClock(now_ms, as_of_ms or now_ms)
        return known.at(now_ms, as_of_ms, self._holds_ms)

    def told(self, look_ms: int | None, clock: LaneClock) -> int | None:
        """A look that is due by that clock, as time of day. None: while it stands none comes
        due, and a wake will tell when it runs again."""
        if look_ms is None or look_ms == AT_ONCE:
            return look_ms
        return None if clock.stands(self._holds_ms) else look_ms + clock.stood_ms

    def keep(self, clock: LaneClock | None) -> None:
        if clock is not None:
            self._states.put({_NAME: orjson.dumps(tuple(clock))})
        elif self._is_kept:
            self._states.remove([_NAME])
