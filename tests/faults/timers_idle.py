"""What the retry job costs while it has nothing to do: with nothing waiting, and with payloads that
wait for tomorrow.

python -m tests.faults.timers_idle --timers 10000
"""

import argparse
import os
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from local_stack.run.stack import Stack
from tests.faults.timers_run import Timers
from tests.faults.timers_sent import Timer
from tests.job_process import JobProcess
from tests.kafka_log import eventually

_TOMORROW_MS = 86_400_000
_SETTLES_S = 20.0
_TICKS_A_S = os.sysconf("SC_CLK_TCK")


def cpu_s(group: int) -> float:
    """That a process group and its children have used until now."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_A_S


def idle_share(rig: Timers, job: JobProcess, for_s: float) -> float:
    job.start()
    rig.until_up()
    eventually(lambda: rig.lane_unread() == 0, within_s=300)
    time.sleep(_SETTLES_S)
    assert job.pid is not None
    before_s, began_s = cpu_s(job.pid), time.monotonic()
    time.sleep(for_s)
    return (cpu_s(job.pid) - before_s) / (time.monotonic() - began_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=10_000)
    parser.add_argument("--for-s", type=float, default=30.0)
    options = parser.parse_args()
    chance = random.Random(1)
    due_ms = time.time_ns() // 1_000_000 + _TOMORROW_MS
    timers = [
        Timer(f"one-{n}", 0, due_ms + chance.randrange(_TOMORROW_MS)) for n in range(options.timers)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder) / "servers", random_ports=True, services=("kafka",)) as stack,
    ):
        rig = Timers(Path(folder), stack.kafka_bootstrap)
        job = rig.job("retry")
        empty = idle_share(rig, job, options.for_s)
        rig.kill(job)
        rig.send(timers)
        full = idle_share(rig, job, options.for_s)
        rig.look()
        assert len(rig.open) == options.timers
        rig.kill(job)
    print(f"cores: {empty:.3f} with nothing waiting, {full:.3f} with {options.timers} that wait")
    return 0


if __name__ == "__main__":
    sys.exit(main())
