"""What is kept for the next question, and when it is not."""

import time

import pytest

from gateway.whereabouts.cached import Kept


class Thing:
    def __init__(self) -> None:
        self.is_well = True
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def _kept(idle_s: float = 60.0) -> Kept[Thing]:
    return Kept(Thing, lambda one: one.is_well, idle_s)


def test_one_is_kept_for_the_next_and_two_are_made_for_two_at_once() -> None:
    kept = _kept()
    with kept.one() as first, kept.one() as second:
        assert second is not first
    with kept.one() as again:
        assert again in (first, second)
    kept.close()
    assert first.is_closed
    assert second.is_closed


def test_after_an_error_and_where_it_is_not_well_another_one_is_made() -> None:
    kept = _kept()
    with pytest.raises(OSError, match="away"), kept.one() as broken:
        raise OSError("away")
    assert broken.is_closed
    with kept.one() as one:
        assert one is not broken
    one.is_well = False
    with kept.one() as other:
        assert other is not one
    assert one.is_closed
    assert not other.is_closed
    kept.close()


def test_what_nobody_wants_for_long_is_closed() -> None:
    kept = _kept(idle_s=0.05)
    with kept.one() as one:
        pass
    until_s = time.monotonic() + 10
    while not one.is_closed and time.monotonic() < until_s:
        time.sleep(0.01)
    assert one.is_closed
