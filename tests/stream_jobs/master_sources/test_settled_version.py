"""What a poll may take as read for good, against transactions that commit when they like."""

from itertools import count
from random import Random

import pytest

from stream_jobs.master_sources.settled_version import SettledVersion

NOBODY: frozenset[str] = frozenset()


def test_the_newest_version_counts_for_good_at_the_next_reading_where_nobody_was_open() -> None:
    mark = SettledVersion(late_s=0)
    mark.begin(NOBODY, 0)
    assert mark.after is None
    assert not mark.end("5")
    mark.begin(NOBODY, 1)
    assert mark.after == "5"
    assert mark.end("5")


def test_a_transaction_that_was_open_holds_the_mark_until_it_has_ended() -> None:
    mark = SettledVersion(late_s=0)
    mark.begin(frozenset({"7/1"}), 0)
    mark.end("5")
    for open_now in ({"7/1"}, {"7/1", "8/1"}):
        mark.begin(frozenset(open_now), 1)
        assert mark.after is None
        mark.end("6")
    mark.begin(frozenset({"8/1"}), 2)  # which began after the version that is waited for
    assert mark.after == "5"


def test_a_version_may_come_late_for_as_long_as_was_said() -> None:
    mark = SettledVersion(late_s=60)
    mark.begin(NOBODY, 0)
    mark.end("5")
    for now_s, after in ((5, None), (64, None), (65, "5")):
        mark.begin(NOBODY, now_s)
        assert mark.after == after
        mark.end("5")


def test_nothing_counts_for_good_while_transactions_may_be_hidden() -> None:
    mark = SettledVersion(late_s=0)
    mark.begin(NOBODY, 0)
    mark.end("5")
    mark.begin(NOBODY, 1, may_hide=True)
    assert mark.after is None


class _Table:
    """Rows with the time at which their transaction began, and a clock that goes on with each use.
    Transactions commit in any order."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._clock = count(1)
        self._open: dict[str, list[tuple[str, int]]] = {}
        self.rows: dict[str, int] = {}
        self.written: set[str] = set()

    def step(self) -> None:
        chance = self._random.random()
        if chance < 0.3:
            name = f"t{next(self._clock)}"
            self._open[name] = [(f"row of {name}", next(self._clock))]
        elif self._open and chance < 0.6:
            for row, version in self._open.pop(self._random.choice([*self._open])):
                self.rows[row] = version
                self.written.add(row)

    def open_now(self) -> frozenset[str]:
        return frozenset(self._open)


@pytest.mark.parametrize("seed", range(200))
def test_no_row_is_passed_over_however_late_it_is_committed(seed: int) -> None:
    random = Random(seed)
    table, read = _Table(random), set[str]()
    mark = SettledVersion(late_s=0)
    for _ in range(200):
        open_now = table.open_now()
        mark.begin(open_now, 0)
        for _ in range(random.randrange(3)):
            table.step()  # between that look and the snapshot
        newest = max(table.rows.values(), default=None)
        since = int(mark.since or 0)
        read |= {row for row, version in table.rows.items() if version > since}
        assert read == table.written
        mark.end(None if newest is None else str(newest))
        if random.random() < 0.1:  # the process dies: only what counts for good is known
            mark = SettledVersion(0, mark.since)
        for _ in range(random.randrange(3)):
            table.step()
