"""What a killed launcher leaves behind ends by itself, but not at once: PostgreSQL first writes
down what it holds. Until then its port looks like somebody else's."""

import os
import time
from pathlib import Path

from local_stack.run.stack_file import last_pids

WAIT_S = 10.0


def wait_for_the_last_run(state_dir: Path) -> None:
    pids = last_pids(state_dir)
    deadline = time.monotonic() + WAIT_S
    while any(_is_of(pid, state_dir) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)


def _is_of(pid: int, state_dir: Path) -> bool:
    """The number may by now belong to a process that has no business in this folder."""
    process = Path("/proc") / str(pid)
    try:
        said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(state_dir) in said
