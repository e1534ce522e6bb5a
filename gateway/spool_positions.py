"""Where a node's spool ends and how far it is drained, in memory that its processes share."""

import mmap
from pathlib import Path

_FIELDS = 7


class Positions:
    """Plain numbers in a mapped file: reading one costs a POST next to nothing. Written under the
    spool's lock. After a loss of power they may be old, so whoever opens the spool first looks at
    what really lies there."""

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as file:
            file.truncate(8 * _FIELDS)
            self._map = mmap.mmap(file.fileno(), 8 * _FIELDS)
        self._fields = memoryview(self._map).cast("Q")

    def close(self) -> None:
        self._fields.release()
        self._map.close()

    @property
    def written(self) -> int:
        """The end of the last frame, counted in bytes since the spool's first one ever."""
        return self._fields[0]

    @written.setter
    def written(self, position: int) -> None:
        self._fields[0] = position

    @property
    def drained(self) -> int:
        return self._fields[1]

    @drained.setter
    def drained(self, position: int) -> None:
        self._fields[1] = position

    @property
    def records(self) -> int:
        """How many are not drained."""
        return self._fields[2]

    @records.setter
    def records(self, count: int) -> None:
        self._fields[2] = count

    @property
    def oldest_ms(self) -> int:
        return self._fields[3]

    @oldest_ms.setter
    def oldest_ms(self, time_ms: int) -> None:
        self._fields[3] = time_ms

    @property
    def segment(self) -> int:
        """Where the segment begins that is written to."""
        return self._fields[4]

    @segment.setter
    def segment(self, position: int) -> None:
        self._fields[4] = position

    @property
    def closed_until_ns(self) -> int:
        """By the machine's monotonic clock, which is the same for all its processes."""
        return self._fields[5]

    @closed_until_ns.setter
    def closed_until_ns(self, time_ns: int) -> None:
        self._fields[5] = time_ns

    @property
    def set_aside_bytes(self) -> int:
        return self._fields[6]

    @set_aside_bytes.setter
    def set_aside_bytes(self, count: int) -> None:
        self._fields[6] = count
