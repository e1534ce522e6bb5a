"""Where a topic's spool ends and how far it is drained, in memory that a node's processes share."""

import mmap
from pathlib import Path

_ALL_BITS = 2**64 - 1


class _Number:
    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, positions: "Positions", _: type) -> int:
        return positions.fields[self._place]

    def __set__(self, positions: "Positions", number: int) -> None:
        positions.fields[self._place] = number


class Positions:
    """Plain numbers in a mapped file: reading one costs a POST next to nothing. Written under the
    spool's lock. After a loss of power they may be old or gone, so whoever opens the spool first
    looks at what really lies there."""

    written = _Number(0)  # the end of the last frame, in bytes since the topic's first one ever
    _drained = _Number(1)
    records = _Number(2)  # how many are not drained
    oldest_ms = _Number(3)
    segment = _Number(4)  # where the segment begins that is written to
    closed_until_ns = _Number(5)  # by the machine's monotonic clock, the same for all processes
    _not_drained = _Number(6)
    stuck_since_ms = _Number(7)  # 0: it is not
    stuck_why = _Number(8)
    safe = _Number(9)  # up to here the disk has all of it, and somebody was told so
    _COUNT = 10

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(8 * self._COUNT)
            self._map = mmap.mmap(file.fileno(), 8 * self._COUNT)
        self.fields = memoryview(self._map).cast("Q")

    def close(self) -> None:
        self.fields.release()
        self._map.close()

    def flush(self) -> None:
        """Onto the disk, so that no loss of power makes them older than this."""
        self._map.flush()

    @property
    def drained(self) -> int:
        return self._drained

    @drained.setter
    def drained(self, position: int) -> None:
        self._drained = position
        self._not_drained = position ^ _ALL_BITS

    def drained_is_sound(self) -> bool:
        """A number that the disk has damaged would pass over frames without a word."""
        return self._drained ^ self._not_drained == _ALL_BITS
