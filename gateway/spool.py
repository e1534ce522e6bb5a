"""Payloads on this node's disk while Kafka takes none: one spool, shared by its processes.

A log of frames in segments, named by the position of their first byte:

    spool/positions  00000000000000000000.frames  00000000000016781312.frames  set-aside/

Nothing is dropped to make room, and nothing that cannot be read is skipped without a trace: it
goes to `set-aside`, byte for byte, and the operator hears of it.
"""

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gateway.spool_frame import (
    Frame,
    bodies,
    first_size_bytes,
    next_frame,
    pack,
    size_bytes,
    unpack,
)
from gateway.spool_positions import Positions

log = logging.getLogger(__name__)

_SEGMENT_BYTES = 16 * 1024 * 1024
_READ_BYTES = 256 * 1024
_CLOSED_S = 0.25
_SUFFIX = ".frames"


class SpoolState(NamedTuple):
    records: int
    bytes: int
    bytes_max: int
    age_ms: int
    set_aside_bytes: int


class Spool:
    def __init__(self, folder: Path, bytes_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        (folder / "set-aside").mkdir(parents=True, exist_ok=True)
        self._at = Positions(folder / "positions")
        self._mutex = threading.RLock()
        self._lock = (folder / "lock").open("a")
        self._users = (folder / "users.lock").open("a")
        self._drainer = (folder / "drainer.lock").open("a")
        self._segment: tuple[int, BinaryIO] | None = None
        with self._locked():
            self._recover_if_first()

    def close(self) -> None:
        if self._lock.closed:
            return
        self._leave_segment()
        for file in (self._lock, self._users, self._drainer):
            file.close()
        self._at.close()

    def is_empty(self) -> bool:
        return self._at.written == self._at.drained

    def has_room(self) -> bool:
        return self._at.written - self._at.drained < self._bytes_max

    def state(self) -> SpoolState:
        size_bytes = self._at.written - self._at.drained
        age_ms = max(0, _now_ms() - self._at.oldest_ms) if size_bytes else 0
        aside = self._at.set_aside_bytes
        return SpoolState(self._at.records, size_bytes, self._bytes_max, age_ms, aside)

    def append(self, frames: Sequence[Frame]) -> int:
        """How many of them, from the first on, are safe on the disk. Blocks until they are.
        OSError: nobody can say."""
        with self._locked():
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
                self._at.oldest_ms = _now_ms()
            self._at.records += len(packed)
            self._at.written = end + sum(map(len, packed))
            descriptor = os.dup(file.fileno())
        try:
            os.fsync(descriptor)  # outside the lock: others write meanwhile, and share the wait
        except OSError:
            # what the system could not write it may hold for written now: never ask it again
            self._at.segment = self._at.written
            raise
        finally:
            os.close(descriptor)
        return len(packed)

    def may_drain(self) -> bool:
        """One process drains, and keeps to it until it ends."""
        try:
            fcntl.flock(self._drainer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def read(self) -> tuple[list[Frame], int]:
        """The oldest frames that are not drained, and where they end."""
        segments = self._segments()
        at, end = self._at.drained, self._at.written
        start = max((s for s in segments if s <= at), default=None)
        if start is None:
            self._skip_to(min((s for s in segments if s > at), default=end), "they are missing")
            return [], self._at.drained
        segment_end = min((s for s in segments if s > start), default=end)
        with self._path(start).open("rb") as file:
            file.seek(at - start)
            raw = file.read(min(_READ_BYTES, segment_end - at))
            if first_size_bytes(raw) > len(raw):
                raw += file.read(min(first_size_bytes(raw), segment_end - at) - len(raw))
        found = list(bodies(raw))
        if not found and at < segment_end:
            rest = self._path(start).read_bytes()[at - start : segment_end - start]
            self._skip_to(at + next_frame(rest), "they are damaged")
        return [unpack(body) for body in found], at + sum(map(size_bytes, found))

    def drained(self, frames: int, end: int, oldest_ms: int | None) -> None:
        with self._locked():
            self._at.records -= min(frames, self._at.records)
            self._at.drained = end
            if oldest_ms is not None:
                self._at.oldest_ms = oldest_ms
            if self.is_empty():
                self._at.records = self._at.closed_until_ns = 0
                self._at.segment = end  # the next frame begins a new one, this one can go
            self._remove_drained_segments()

    def set_aside(self, frame: Frame) -> None:
        """What Kafka will never take is kept for the operator."""
        raw = pack(frame)
        self._keep(self._folder / "set-aside" / "refused.frames", raw)
        self._at.set_aside_bytes += len(raw)

    def close_gate(self) -> None:
        """For a moment nobody appends, so that the drain comes to an end under load, too."""
        self._at.closed_until_ns = time.monotonic_ns() + int(_CLOSED_S * 1e9)

    def gate_is_closed(self) -> bool:
        return not self.is_empty() and time.monotonic_ns() < self._at.closed_until_ns

    def _as_many_as_fit(self, frames: Sequence[Frame]) -> list[bytes]:
        room = self._bytes_max - (self._at.written - self._at.drained)
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
                _sync_folder(self._folder)
        return self._segment

    def _leave_segment(self) -> None:
        if self._segment is not None:
            self._segment[1].close()
            self._segment = None

    def _remove_drained_segments(self) -> None:
        segments = self._segments()
        for start, following in pairwise([*segments, self._at.segment]):
            if start < following <= self._at.drained:
                self._path(start).unlink()

    def _recover_if_first(self) -> None:
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others use it: what they share is right
        else:
            self._recover()
        fcntl.flock(self._users, fcntl.LOCK_SH)

    def _recover(self) -> None:
        """Finds the end of what is whole, and cuts what a crash left behind it."""
        at, segments = self._at, self._segments()
        at.closed_until_ns = at.records = 0
        at.set_aside_bytes = sum(
            path.stat().st_size for path in (self._folder / "set-aside").iterdir()
        )
        if not segments:
            at.segment = at.written = at.drained = max(at.written, at.drained)
            return
        at.drained = max(at.drained, segments[0])
        for start in segments:
            raw = self._path(start).read_bytes()
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
        at.drained = min(at.drained, at.written)
        self._cut(at.segment, at.written)

    def _cut(self, start: int, end: int) -> None:
        with self._path(start).open("r+b") as file:
            file.seek(end - start)
            if torn := file.read():
                log.warning("the spool ended with %d bytes that are no whole frame", len(torn))
                self._keep(self._folder / "set-aside" / f"torn-{end}", torn)
                self._at.set_aside_bytes += len(torn)
                file.truncate(end - start)
                os.fsync(file.fileno())

    def _skip_to(self, position: int, why: str) -> None:
        at = self._at.drained
        log.error("the spool's bytes %d to %d cannot be drained: %s", at, position, why)
        raw = b""
        with contextlib.suppress(OSError):
            start = max(s for s in self._segments() if s <= at)
            raw = self._path(start).read_bytes()[at - start : position - start]
        self._keep(self._folder / "set-aside" / f"damaged-{at}", raw)
        self._at.set_aside_bytes += position - at
        self.drained(0, position, None)

    def _keep(self, path: Path, raw: bytes) -> None:
        with path.open("ab") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())

    def _segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self._folder.glob(f"*{_SUFFIX}"))

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020}{_SUFFIX}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:  # the file's lock keeps other processes out, but not other threads
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)


def _write(file: BinaryIO, raw: bytes, offset: int) -> None:
    rest = memoryview(raw)
    while rest:
        written = os.pwrite(file.fileno(), rest, offset)
        rest, offset = rest[written:], offset + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
