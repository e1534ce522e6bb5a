"""Payloads of one topic on this node's disk: a log of frames, shared by the node's processes.

Its segments are named by the position of their first byte:

    positions  00000000000000000000.frames  00000000000016781312.frames

Nothing is dropped to make room, and nothing that cannot be read is skipped without a trace: it is
set aside, byte for byte, and the operator hears of it.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gateway.spool.frame import (
    Frame,
    bodies,
    first_size_bytes,
    next_frame,
    pack,
    size_bytes,
    unpack,
)
from gateway.spool.lock import SpoolLock
from gateway.spool.positions import Positions
from gateway.spool.set_aside import DAMAGED, MISSING, TORN, SetAside, sync_folder
from gateway.spool.writing_right import Rights
from shared.timestamps import now_ms

log = logging.getLogger(__name__)

_SEGMENT_BYTES = 16 * 1024 * 1024
_READ_BYTES = 256 * 1024
_CLOSED_S = 0.25
_SUFFIX = ".frames"
# what may keep Kafka from taking a topic's payloads, though it is well itself
NOT_ACKNOWLEDGED = "not_acknowledged"
STUCK_BY = (NOT_ACKNOWLEDGED, "topic_missing", "not_authorized")


class Stuck(NamedTuple):
    topic: str
    why: str
    since_ms: int


class SpoolLog:
    def __init__(
        self, folder: Path, topic: str, lock: SpoolLock, room: Callable[[], int], aside: SetAside
    ) -> None:
        """`room`: how many bytes more it may take."""
        folder.mkdir(parents=True, exist_ok=True)
        self.topic = topic
        self._folder = folder
        self._lock = lock
        self._room = room
        self._aside = aside
        self._at = Positions(folder / "positions")
        self._segment: tuple[int, BinaryIO] | None = None
        self.rights = Rights(folder)  # to write to the topic itself

    def close(self) -> None:
        self._leave_segment()
        self._at.close()
        self.rights.close()

    def is_empty(self) -> bool:
        return self._at.written == self._at.drained

    @property
    def bytes_waiting(self) -> int:
        return self._at.written - self._at.drained

    @property
    def end(self) -> int:
        return self._at.written

    @property
    def records(self) -> int:
        return self._at.records

    @property
    def oldest_ms(self) -> int:
        return self._at.oldest_ms

    @property
    def stuck(self) -> Stuck | None:
        since_ms = self._at.stuck_since_ms
        if not since_ms or self.is_empty():
            return None
        return Stuck(self.topic, STUCK_BY[self._at.stuck_why % len(STUCK_BY)], since_ms)

    def note_stuck(self, why: str) -> bool:
        """Whether that is news."""
        number = STUCK_BY.index(why)
        is_news = not self._at.stuck_since_ms or self._at.stuck_why != number
        self._at.stuck_why = number
        self._at.stuck_since_ms = self._at.stuck_since_ms or now_ms()
        return is_news

    def note_progress(self) -> None:
        self._at.stuck_since_ms = 0

    def append(self, frames: Sequence[Frame]) -> int:
        """How many of them, from the first on, are safe on the disk. Blocks until they are.
        OSError: nobody can say."""
        with self._lock.held():
            packed = self._as_many_as_fit(frames)
            if not packed:
                return 0
            start, file = self._segment_to_write()
            end = self._at.written
            try:
                _write(file, b"".join(packed), end - start)
            except OSError as error:
                # what was half written must not look like frames later
                os.ftruncate(file.fileno(), end - start)
                log.error("the spool's disk takes nothing more: %s", error)
                return 0
            if self.is_empty():
                self._at.oldest_ms = now_ms()
            self._at.records += len(packed)
            end += sum(map(len, packed))
            self._at.written = end
            descriptor = os.dup(file.fileno())
        try:
            os.fsync(descriptor)  # outside the lock: others write meanwhile, and share the wait
        except OSError:
            # what the system could not write it may hold for written now: never ask it again
            self._at.segment = self._at.written
            raise
        finally:
            os.close(descriptor)
        with self._lock.held():
            self._at.safe = max(self._at.safe, end)
        return len(packed)

    def read(self) -> tuple[list[Frame], int]:
        """The oldest frames that are not drained, and where they end."""
        segments = self._segments()
        at, end = self._at.drained, self._at.written
        start = max((s for s in segments if s <= at), default=None)
        if start is None:
            self._skip_missing(min((s for s in segments if s > at), default=end))
            return [], self._at.drained
        segment_end = min((s for s in segments if s > start), default=end)
        with self._path(start).open("rb") as file:
            file.seek(at - start)
            raw = file.read(min(_READ_BYTES, segment_end - at))
            if first_size_bytes(raw) > len(raw):
                raw += file.read(min(first_size_bytes(raw), segment_end - at) - len(raw))
        found = list(bodies(raw))
        if not raw and at < segment_end:
            self._skip_missing(segment_end)
        elif raw and not found:
            rest = self._path(start).read_bytes()[at - start : segment_end - start]
            self._skip_damaged(rest[: next_frame(rest)])
        return [unpack(body) for body in found], at + sum(map(size_bytes, found))

    def waiting(self) -> Iterator[tuple[Path, int, int]]:
        """Files of what is not drained, the oldest first, and from where to where of them."""
        for start, end in pairwise([*self._segments(), self._at.written]):
            if end > self._at.drained:
                yield self._path(start), max(self._at.drained - start, 0), end - start

    def drained(self, frames: int, end: int, oldest_ms: int | None) -> None:
        with self._lock.held():
            self._at.records -= min(frames, self._at.records)
            self._at.drained = end
            if oldest_ms is not None:
                self._at.oldest_ms = oldest_ms
            if self.is_empty():
                self._at.records = self._at.closed_until_ns = self._at.stuck_since_ms = 0
                self._at.segment = end  # the next frame begins a new one, this one can go
            self._remove_drained_segments()

    def set_aside(self, frame: Frame, why: str) -> None:
        """What Kafka will never take is kept for the operator."""
        self._aside.keep(why, self.topic, pack(frame))

    def close_gate(self) -> None:
        """For a moment nobody appends, so that the drain comes to an end under load, too."""
        self._at.closed_until_ns = time.monotonic_ns() + int(_CLOSED_S * 1e9)

    def gate_is_closed(self) -> bool:
        return not self.is_empty() and time.monotonic_ns() < self._at.closed_until_ns

    def _as_many_as_fit(self, frames: Sequence[Frame]) -> list[bytes]:
        room = self._room()
        packed: list[bytes] = []
        for frame in frames:
            raw = pack(frame)
            room -= len(raw)
            if room < 0:
                break
            packed.append(raw)
        return packed

    def _segment_to_write(self) -> tuple[int, BinaryIO]:
        if self._at.written - self._at.segment >= _SEGMENT_BYTES:
            self._at.segment = self._at.written
        start = self._at.segment
        if self._segment is None or self._segment[0] != start:
            self._leave_segment()
            path = self._path(start)
            is_new = not path.exists()
            self._segment = start, os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", 0)
            if is_new:
                sync_folder(self._folder)
        return self._segment

    def _leave_segment(self) -> None:
        if self._segment is not None:
            self._segment[1].close()
            self._segment = None

    def _remove_drained_segments(self) -> None:
        following = pairwise([*self._segments(), self._at.segment])
        can_go = [start for start, end in following if start < end <= self._at.drained]
        if can_go:
            self._at.flush()  # or they would look lost
        for start in can_go:
            self._path(start).unlink()

    def recover(self) -> None:
        """Finds the end of what is whole, and cuts what a crash left behind it. For the first one
        that opens it: of what others share, they know better."""
        at, segments = self._at, self._segments()
        at.closed_until_ns = at.records = at.stuck_since_ms = 0
        if not at.drained_is_sound():  # what is brought once more has no second effect
            at.drained, at.safe = segments[0] if segments else 0, 0
        at.segment = at.written = at.drained
        for start in segments:
            self._recover_segment(start, self._path(start).read_bytes())
        is_torn = bool(segments) and self._cut(at.segment, at.written)
        if at.written < at.drained:  # what is not there any more is in Kafka
            at.segment = at.written = at.drained
        if at.safe > at.written and not is_torn:
            self._keep_missing(at.written, at.safe)
        at.safe = at.written

    def _recover_segment(self, start: int, raw: bytes) -> None:
        at = self._at
        begin = min(max(at.drained - start, 0), len(raw))
        at.segment, at.written = start, start + begin
        while begin < len(raw):
            found = list(bodies(raw[begin:]))
            if found and not at.records:
                at.oldest_ms = unpack(found[0]).spooled_ms
            at.records += len(found)
            begin += sum(map(size_bytes, found))
            if found:
                at.written = start + begin
            begin += next_frame(raw[begin:])  # what is damaged between them, the drain skips

    def _cut(self, start: int, end: int) -> bool:
        """Whether there was something."""
        with self._path(start).open("r+b") as file:
            file.seek(end - start)
            if torn := file.read():
                log.warning("the spool ended with %d bytes that are no whole frame", len(torn))
                self._aside.keep(TORN, self.topic, torn, end)
                file.truncate(end - start)
                os.fsync(file.fileno())
        return bool(torn)

    def _skip_damaged(self, raw: bytes) -> None:
        at = self._at.drained
        end = at + len(raw)
        log.error("bytes %d to %d of the spool of %s are damaged", at, end, self.topic)
        self._aside.keep(DAMAGED, self.topic, raw, at)
        self.drained(0, end, None)

    def _skip_missing(self, end: int) -> None:
        self._keep_missing(self._at.drained, end)
        self.drained(0, end, None)

    def _keep_missing(self, begin: int, end: int) -> None:
        what = f"bytes {begin} to {end} of the spool of {self.topic} are missing"
        log.error("%s", what)
        self._aside.keep(MISSING, self.topic, f"{what}\n".encode())

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}"))

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020}{_SUFFIX}"


def _write(file: BinaryIO, raw: bytes, offset: int) -> None:
    rest = memoryview(raw)
    while rest:
        written = os.pwrite(file.fileno(), rest, offset)
        rest, offset = rest[written:], offset + written
