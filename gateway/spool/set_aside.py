"""What a spool could not bring to Kafka, kept byte for byte until an operator has looked at it.

A file for each: `<why>-<topic>-<digest of its bytes>.frames`. So whatever keeps the same bytes
again, after a crash or in another process, keeps them once, and no file ever changes.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gateway.spool.frame import Frame, count_frames, read_frames

DAMAGED, TORN, MISSING = "damaged", "torn", "missing"
FOLDER = "set-aside"
_SUFFIX = ".frames"
_HALF = ".half-"
_TOPIC_CHARS_MAX = 150  # a file's name has 255
_SETTLED_NS = 1_000_000_000  # a folder's time of change has steps


class Kept(NamedTuple):
    """A file that was set aside."""

    path: Path
    why: str
    topic: str
    bytes: int

    @property
    def has_frames(self) -> bool:
        """In damaged bytes nothing is to be believed, whatever it looks like: they may be a
        client's."""
        return self.why not in (DAMAGED, TORN, MISSING)

    def frames(self) -> Iterator[Frame]:
        """As many whole, sound frames as there are, one at a time."""
        return read_frames(self.path) if self.has_frames else iter(())

    def payloads(self) -> int:
        """How many it holds; of damaged bytes at least so many."""
        count, comes_out_even = count_frames(self.path)
        return max(1, count) if self.has_frames or comes_out_even else 1


class Counted(NamedTuple):
    payloads: int
    bytes: int


class SetAside:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._counted: dict[str, Counted] = {}
        self._counted_at_ns = 0

    def forget_halves(self) -> None:
        """Removes keepings that a crash has ended: what they were made of is still where it was."""
        for half in self._folder.glob(f"{_HALF}*"):
            half.unlink(missing_ok=True)

    def keep(self, why: str, topic: str, raw: bytes, place: int = 0) -> Path:
        """`place`: where it stood; payloads differ by their ids, damaged bytes may all be zeros."""
        digest = sha256(b"%d %b" % (place, raw)).hexdigest()[:16]
        path = self._folder / f"{why}-{topic[:_TOPIC_CHARS_MAX]}-{digest}{_SUFFIX}"
        if not path.exists():
            self._folder.mkdir(exist_ok=True)  # whoever cleared it up may have been thorough
            put(path, raw)
        return path

    def counted(self) -> Counted:
        """Looked up anew whenever anything has come or gone, by whomever."""
        if not self._folder.exists():
            return Counted(0, 0)
        changed_ns = self._folder.stat().st_mtime_ns
        if changed_ns != self._counted_at_ns:
            is_settled = time.time_ns() - changed_ns > _SETTLED_NS
            self._count()
            self._counted_at_ns = changed_ns if is_settled else 0
        counted = self._counted.values()
        return Counted(sum(c.payloads for c in counted), sum(c.bytes for c in counted))

    def _count(self) -> None:
        now: dict[str, Counted] = {}
        for kept in kept_in(self._folder):
            name = kept.path.name
            known = self._counted.get(name)
            if known is None or known.bytes != kept.bytes:
                try:
                    known = Counted(kept.payloads(), kept.bytes)
                except FileNotFoundError:  # just now
                    continue
            now[name] = known
        self._counted = now


def in_spool(spool: Path) -> Iterator[Kept]:
    folder = spool / FOLDER
    return kept_in(folder) if folder.exists() else iter(())


def kept_in(folder: Path) -> Iterator[Kept]:
    """In the order of their names."""
    with os.scandir(folder) as found:
        names = sorted(entry.name for entry in found if not entry.name.startswith("."))
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # just now
            yield kept_at(folder / name)


def kept_at(path: Path) -> Kept:
    why, _, rest = path.name.removesuffix(_SUFFIX).partition("-")
    return Kept(path, why, rest.rpartition("-")[0], path.stat().st_size)


def put(path: Path, raw: bytes) -> None:
    """Whole or not at all, in place of what was there."""
    half = path.parent / f"{_HALF}{os.getpid()}-{time.monotonic_ns()}"
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
