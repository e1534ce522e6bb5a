"""What the processes and threads of a node hold for a moment, to change their spool."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path


class SpoolLock:
    """Who has it may take it again."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._mutex = threading.RLock()  # the file's lock keeps other processes out, no threads
        self._times = 0

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with self._mutex:
            if not self._times:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._times += 1
            try:
                yield
            finally:
                self._times -= 1
                if not self._times:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
