"""Time as it counts for what waits: it runs while master data is fresh. Pure.

Nobody can register a device while PostgreSQL or the relay is away, so what waits for one must not
grow too old by that. The relay says up to when master data is complete (`as_of_ms`); each such word
holds for a while, and the clock runs as long as one holds. A batch knows its own time and what the
wakes among its records say, both of which are the same where it runs again. Where none holds it is
not known whether the job or the relay was away: either way nobody could have been served.
"""

from typing import NamedTuple, Self


class LaneClock(NamedTuple):
    seen_ms: int  # when a batch last looked at it
    as_of_ms: int  # the relay's last word that has been heard
    stood_ms: int = 0

    @property
    def now_ms(self) -> int:
        return self.seen_ms - self.stood_ms

    def stands(self, holds_ms: int) -> bool:
        return self.seen_ms >= self.as_of_ms + holds_ms

    def at(self, now_ms: int, as_of_ms: int | None, holds_ms: int) -> Self:
        """In a batch of that time. `holds_ms`: how long the relay's word does."""
        seen_ms, known_ms, stood_ms = self
        heard_ms = max(known_ms, min(as_of_ms or 0, now_ms))  # a clock may be ahead of another
        if now_ms <= seen_ms:  # it was set back
            return self._replace(as_of_ms=heard_ms)
        ran_ms = _overlap(seen_ms, now_ms, known_ms, known_ms + holds_ms)
        gap_ends_ms = max(heard_ms, known_ms + holds_ms)
        ran_ms += _overlap(seen_ms, now_ms, gap_ends_ms, heard_ms + holds_ms)
        return self._replace(
            seen_ms=now_ms, as_of_ms=heard_ms, stood_ms=stood_ms + now_ms - seen_ms - ran_ms
        )


def _overlap(begin: int, end: int, other_begin: int, other_end: int) -> int:
    return max(0, min(end, other_end) - max(begin, other_begin))
