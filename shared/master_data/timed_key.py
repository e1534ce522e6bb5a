"""The keys under which rows that count from a time on are kept: key and time, one row each."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple


class TimedKey(NamedTuple):
    key: str
    from_ms: int

    def __str__(self) -> str:
        return f"{self.key}@{self.from_ms}"


def timed_key(kept: str) -> TimedKey | None:
    """None where it has no time."""
    key, _, since = kept.rpartition("@")
    is_number = since.removeprefix("-").isdecimal() and since.isascii()
    return TimedKey(key, int(since)) if key and is_number and str(int(since)) == since else None


class Times:
    """From when on the rows of each key count: which one counts at a time."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[int]] = {}

    def note(self, kept: str, *, is_there: bool) -> None:
        """A row was set, or is gone."""
        if (timed := timed_key(kept)) is None:
            return
        times = self._by_key.setdefault(timed.key, [])
        at = bisect_left(times, timed.from_ms)
        is_known = times[at : at + 1] == [timed.from_ms]
        if is_there and not is_known:
            times.insert(at, timed.from_ms)
        elif is_known and not is_there:
            del times[at]

    def kept_at(self, key: str, time_ms: int) -> str | None:
        """Under what the row is kept that began last until then. None: none had begun."""
        times = self._by_key.get(key, ())
        begun = bisect_right(times, time_ms)
        return str(TimedKey(key, times[begun - 1])) if begun else None
