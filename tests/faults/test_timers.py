"""A short run of `timers_run`; with figures it is run by hand (see README.md)."""

import os
from pathlib import Path

import pytest

from tests.faults import timers_run
from tests.faults.timers_sent import Timer

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("HEADRACE_TEST_SEED", 26))
# a machine that does other work is late, and no payload is lost by that
LATE_MS = 120_000


def test_timers_survive_kills_in_their_order_and_leave_nothing(tmp_path: Path) -> None:
    assert timers_run.run(tmp_path, 1_500, 2, SEED, 40, 25, 10, LATE_MS) == 0


def test_a_timer_is_late_by_the_time_in_which_a_job_was_up_alone() -> None:
    rig = timers_run.Timers.__new__(timers_run.Timers)
    rig.ups_ms, rig.kills_ms, rig.commits_ms = [0, 150, 350], [100, 300, 900], {120, 160, 360, 500}
    timers = [
        Timer("a", 0, 90),
        Timer("a", 1, 10),  # behind the first
        Timer("b", 0, 10, in_order=False),
        Timer("b", 1, 310),
        Timer("c", 0, 120),
    ]
    tried = {"c/0": 160, "a/0": 170, "a/1": 180, "b/0": 20, "b/1": 360}
    rig.rang = {name: timers_run.Rang(at_ms, (0, at_ms)) for name, at_ms in tried.items()}
    assert rig.dead() == [(100, 160), (300, 360)]
    assert rig.late_ms(timers) == {"a/0": 20, "a/1": 30, "b/0": 10, "b/1": 0, "c/0": 0}
