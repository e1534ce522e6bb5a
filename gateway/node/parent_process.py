"""One writer per state folder, and none that outlives its gateway, however that one ends."""

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def only_writer(path: Path, parent_pid: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                leave_with_parent(parent_pid)
                time.sleep(1)
        yield


def leave_with_parent(parent_pid: int) -> None:
    if os.getppid() != parent_pid:
        sys.exit(0)
