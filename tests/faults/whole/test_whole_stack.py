"""The short form of `./headrace torture`: each part is killed, and two other things happen."""

import asyncio
import os
import secrets
from pathlib import Path

import pytest

from tests.faults.whole.rig import Rig
from tests.faults.whole.run import Load, Report, run

pytestmark = pytest.mark.stack

SEED = int(os.environ.get("HEADRACE_TEST_SEED", secrets.randbelow(10**6)))
# by hand it is a minute: on a slow machine what waits is late, and still has to come
SEEN_WITHIN_S = 480.0
# in threes, after which all has to be well; the launcher's end is the driver's, too
FAULTS = (
    *("gateway killed", "way jobs: reset", "Kafka killed"),
    *("dead at: persist, committed", "view writer killed", "PostgreSQL killed"),
    *("relay killed", "a Python worker killed", "Spark's JVM killed"),
    *("Spark's driver killed", "launcher killed"),
)


def test_nothing_accepted_is_lost_or_counts_twice_whatever_is_killed(tmp_path: Path) -> None:
    report = asyncio.run(_run(tmp_path))
    print(report)
    assert report.violations == []
    assert report.fired.total() == len(FAULTS)


async def _run(folder: Path) -> Report:
    async with Rig(folder, seen_within_s=SEEN_WITHIN_S) as rig:
        await rig.start()
        report = await run(rig, SEED, Load(2_000, per_s=40, lines_per_s=40), FAULTS)
        await asyncio.to_thread(rig.launcher.press_ctrl_c)
        rig.launcher.assert_nothing_is_left()
    assert "Traceback" not in rig.launcher.said
    return report
