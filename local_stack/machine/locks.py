"""File locks that the kernel drops when their process dies. Standard library only."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say
from shared.machine.private_folder import keep_private


@contextmanager
def only_one_at_a_time(lock: Path, waiting_for: str) -> Iterator[None]:
    """Two first starts must not make the same folder; the later one waits and says for what."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another headrace is making {waiting_for}; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class InstanceLock:
    """One launcher per state folder. A file left by a killed launcher is no obstacle."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "launcher.pid"
        self._file: IO[str] | None = None

    def acquire(self) -> int | None:
        """Takes the lock, or returns the pid of the launcher that has it."""
        if self._file:
            return None
        file = self._open()
        # Whoever asks for the status holds the lock for a moment: not a launcher.
        for _ in range(5):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)
                continue
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._file = file
            return None
        file.close()
        return _read_pid(self._path)

    def _open(self) -> IO[str]:
        try:
            keep_private(self._path.parent)
            return self._path.open("a+")
        except OSError as error:
            raise StackError(
                f"the state folder {self._path.parent} cannot be used: {error.strerror}",
                "choose another one with --state-dir or HEADRACE_STATE_DIR",
            ) from error

    def release(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


def running_launcher(state_dir: Path) -> int | None:
    """The pid of the live launcher of this state folder."""
    path = state_dir / "launcher.pid"
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_pid(path)
    return None


def _read_pid(path: Path) -> int:
    while not (text := path.read_text()):  # its owner is about to write
        time.sleep(0.01)
    return int(text)
