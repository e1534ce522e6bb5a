import random
from datetime import datetime

import pytest

from tests.faults.whole.clocks import KINDS, Clock, said

NOW_MS = 1_795_264_963_000


def _off_ms(kind: str) -> set[int | None]:
    found: set[int | None] = set()
    for seed in range(20):
        clock = Clock(kind, random.Random(seed))
        for number in range(200):
            at_ms = clock.at_ms(NOW_MS + number)
            found.add(None if at_ms is None else at_ms - NOW_MS - number)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_clock_says_what_a_payload_can_hold(kind: str) -> None:
    for off_ms in _off_ms(kind):
        told = said(None if off_ms is None else NOW_MS + off_ms)
        if off_ms is None:
            assert told == {}
        else:
            at = datetime.fromisoformat(told["at"])
            assert round(at.timestamp() * 1000) == NOW_MS + off_ms


def test_what_is_wrong_with_them() -> None:
    assert _off_ms("silent") == {None}
    ahead = {off for off in _off_ms("ahead") if off is not None}
    assert min(ahead) >= 298_000
    assert max(ahead) <= 3_600_000
    fallen = {off for off in _off_ms("fallen") if off is not None}
    assert min(fallen) < -40 * 365 * 86_400_000
    assert max(fallen) <= 0
    drifting = {off for off in _off_ms("drifting") if off is not None}
    assert min(drifting) < -600_000
    assert max(drifting) > 600_000
    assert {off > 300_000 for off in _off_ms("jumping") if off is not None} == {True, False}
