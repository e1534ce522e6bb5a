"""Up to which version a table was read for good. Pure.

A transaction may commit late, with a version that was given long before: the time at which it
began, or a number of a sequence. So what was read up to the newest version counts for good only
once every transaction that was open then has ended, and time for clocks and caches has passed.
Until then all after the last version that does count is read again; that changes nothing twice.
"""

from typing import NamedTuple


class _Awaited(NamedTuple):
    version: str
    open: frozenset[str]
    since_s: float


class SettledVersion:
    def __init__(self, late_s: float, since: str | None = None) -> None:
        self.since = since  # what is not later was read for good
        self._late_s = late_s
        self._seen = since
        self._awaited: _Awaited | None = None
        self._reached: str | None = None

    def begin(self, open_now: frozenset[str], now_s: float, *, may_hide: bool = False) -> None:
        """Before the snapshot of the next reading. `may_hide`: transactions may be open that
        `open_now` does not name."""
        if self._awaited is None and self._seen != self.since and self._seen is not None:
            # whoever could still commit something that is not later was open at the reading before
            # this one: it has ended, and the next snapshot shows it, or it is among these
            self._awaited = _Awaited(self._seen, open_now, now_s)
        told = self._awaited
        is_over = (
            told is not None
            and not may_hide
            and told.open.isdisjoint(open_now)
            and now_s - told.since_s >= self._late_s
        )
        self._reached = told.version if told and is_over else None

    @property
    def after(self) -> str | None:
        """What `since` is, once what is read now is kept."""
        return self._reached or self.since

    def end(self, newest: str | None) -> bool:
        """What was read is kept; `newest` is of its snapshot. True: nothing is read again."""
        if self._reached is not None:
            self.since, self._awaited, self._reached = self._reached, None, None
        self._seen = newest
        return self._seen == self.since
