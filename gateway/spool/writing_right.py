"""Who may write to a topic: its gateways, or for a while nobody, so that it can get partitions.

Two locks of the system's in the topic's folder of each node's spool. Whoever writes to the topic
has the one, shared with all who write. Whoever wants it for himself takes the other first, which
asks those who write to end what they have under way and to give theirs back. Until they have it
again, what they accept goes into the spool. A process that dies has no lock: nobody ever waits for
one that is gone, whichever side it was on.
"""

import fcntl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TextIO

_AGAIN_S = 0.05


class WritingRight:
    """The right of one writer in one process to write; two in a process have a right each."""

    def __init__(self, folder: Path) -> None:
        self._wanted, self._writers = _files(folder)
        self.is_mine = False

    def close(self) -> None:
        self._wanted.close()
        self._writers.close()

    def is_wanted(self) -> bool:
        """Whether somebody wants the topic for himself."""
        if not _try(self._wanted, fcntl.LOCK_SH):
            return True
        fcntl.flock(self._wanted, fcntl.LOCK_UN)
        return False

    def take(self) -> bool:
        if not self.is_mine and not self.is_wanted():
            self.is_mine = _try(self._writers, fcntl.LOCK_SH)
        return self.is_mine

    def give_back(self) -> None:
        """For who has nothing under way."""
        fcntl.flock(self._writers, fcntl.LOCK_UN)
        self.is_mine = False


class Rights:
    """The rights of one process's writers to one topic."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given: list[WritingRight] = []

    def new(self) -> WritingRight:
        self._given.append(WritingRight(self._folder))
        return self._given[-1]

    def close(self) -> None:
        for right in self._given:
            right.close()


class SoleRight:
    """To a topic, against all writers of a node."""

    def __init__(self, folder: Path) -> None:
        self._wanted, self._writers = _files(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """They write again."""
        self._wanted.close()
        self._writers.close()

    def somebody_writes(self) -> bool:
        if not _try(self._writers, fcntl.LOCK_EX):
            return True
        fcntl.flock(self._writers, fcntl.LOCK_UN)
        return False

    def ask(self) -> None:
        """Waits for a moment at most: the writers look whether it is locked by locking it."""
        fcntl.flock(self._wanted, fcntl.LOCK_EX)

    def take(self, goes_on: Callable[[], bool]) -> bool:
        """When all writers have given theirs back; False where they have not as long as it
        `goes_on`."""
        while not _try(self._writers, fcntl.LOCK_EX):
            if not goes_on():
                return False
            time.sleep(_AGAIN_S)
        return True


def _files(folder: Path) -> tuple[TextIO, TextIO]:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / "wanted.lock").open("a"), (folder / "writers.lock").open("a")


def _try(file: TextIO, operation: int) -> bool:
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
