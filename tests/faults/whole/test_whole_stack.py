"""The short form of `./headrace torture`: each part is killed, and three other things happen."""

import asyncio
import os
import random
import secrets
from pathlib import Path

import pytest

from tests.faults.whole.faults import KILLS
from tests.faults.whole.rig import Rig
from tests.faults.whole.run import Report, run

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("HEADRACE_TEST_SEED", secrets.randbelow(10**6)))
OTHERS = ("way jobs: reset", "dead at: persist, committed", "newest commit of fold gone")


def test_nothing_accepted_is_lost_or_counts_twice_whatever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    faults = chance.sample([*KILLS, *OTHERS], len(KILLS) + len(OTHERS))
    report = asyncio.run(_run(tmp_path, faults))
    print(report)
    assert report.violations == []
    assert report.fired.total() == len(faults)


async def _run(folder: Path, faults: list[str]) -> Report:
    async with Rig(folder) as rig:
        await rig.start()
        report = await run(rig, SEED, 2_000, faults, per_s=100)
        await asyncio.to_thread(rig.launcher.press_ctrl_c)
        rig.launcher.assert_nothing_is_left()
    assert "Traceback" not in rig.launcher.said
    return report
