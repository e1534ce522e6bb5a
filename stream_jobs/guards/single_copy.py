"""One copy of a job at a time.

A lock beside the checkpoint keeps a second copy of the same checkpoint from starting. A claim in
the metadata of the job's committed offsets finds copies elsewhere: its holder renews it every two
seconds, a newcomer first watches whether anyone does, and of two copies the higher claim stays.
"""

import fcntl
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import orjson
from confluent_kafka import KafkaException

from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets
from shared.errors import AnotherCopyError
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, StoredFolder
from stream_jobs.guards.claim import Claim, highest
from stream_jobs.guards.lease import Lease, now_s

# longer than a lease: whoever has not renewed its claim for so long does no work either
TAKE_OVER_AFTER_S = 20.0


class OneCopy:
    def __init__(
        self,
        job: str,
        group: LogOffsets,
        folder: Path,
        run: str = "",
        checkpoint: CheckpointFolder | None = None,
    ) -> None:
        """AnotherCopyError where another process of this machine holds the folder. `run`: by which
        the workers know their driver. `checkpoint`: where it is not in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._job = job
        self._lock = _lock(folder / f"{job}.lock", job)
        self._lease = Lease(folder, job)
        self._group = group
        self._checkpoint_folder = checkpoint or folder / job
        self._run = run or uuid4().hex[:12]
        self._mine: Claim | None = None
        # no lock is between two machines: whoever has read the same claim takes it as well, so it
        # counts when it is found again
        self._is_sure = not isinstance(self._checkpoint_folder, StoredFolder)
        self._offsets: Offsets = {}
        # of topics that had more partitions than offsets when it took its claim: the offsets
        self.committed: dict[str, int] = {}
        self._watched: tuple[Claim, float] | None = None

    def watch(self) -> bool:
        """A look, long before the claim is wanted: whether it is sure that nobody else has it.
        Kafka may be away then."""
        try:
            with suppress(KafkaException):
                return self._is_free(highest(self._group.committed().notes), now_s())
        except AnotherCopyError:
            self._watched = None  # whoever stands by looks again
            raise
        return False

    def hold(self) -> bool:
        """Takes the claim or renews it. False as long as it is not sure that nobody else has it;
        AnotherCopyError when somebody has."""
        asked_s = now_s()
        committed = self._group.committed()
        seen = highest(committed.notes)
        if self._mine is None:
            if not committed.offsets or not self._is_free(seen, asked_s):
                return False
            self._offsets = _without(committed.added, committed.offsets)
            self.committed = {topic: len(self._offsets[topic]) for topic in committed.added}
            self._mine = Claim(seen.epoch + 1 if seen else 1, self._run, _host())
        elif seen is not None and seen.outranks(self._mine):
            raise AnotherCopyError(self._who(seen))
        else:
            self._is_sure |= seen is not None and seen.run == self._mine.run
        self._write(self._mine)
        if self._is_sure:
            self._lease.extend(asked_s)
        return self._is_sure

    def publish(self, offsets: Offsets) -> None:
        """Publishes where a batch has come to whose output is acknowledged."""
        assert self._mine is not None
        for topic, partitions in offsets.items():
            self._offsets[topic] = {**self._offsets.get(topic, {}), **partitions}
        self._write(self._mine)

    def end_lease(self) -> None:
        """Nothing of it may be at work any more."""
        self._lease.end()

    def release(self) -> None:
        """So that the next copy need not wait."""
        if self._mine is not None:
            self._write(self._mine._replace(released=True))

    def _is_free(self, seen: Claim | None, at_s: float) -> bool:
        if seen is None or seen.released:
            return True
        if seen.checkpoint and seen.checkpoint == self._checkpoint():
            return True  # it held the lock that this one has now
        if self._watched is None:
            self._watched = seen, at_s
        first, since_s = self._watched
        if seen != first:
            raise AnotherCopyError(self._who(seen))
        return at_s - since_s > TAKE_OVER_AFTER_S

    def _write(self, claim: Claim) -> None:
        # all offsets each time: those of an idle partition would expire, and a late word of an
        # earlier copy is put right
        self._mine = claim._replace(checkpoint=self._checkpoint(), beat=claim.beat + 1)
        self._group.commit(self._offsets, self._mine.note())

    def _checkpoint(self) -> str:
        """Nothing of one that other machines reach, too: the lock here says nothing of them."""
        if isinstance(self._checkpoint_folder, StoredFolder):
            return ""
        try:
            return str(orjson.loads((self._checkpoint_folder / "metadata").read_bytes())["id"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _who(self, claim: Claim) -> str:
        folder = self._checkpoint_folder
        is_stored = isinstance(folder, StoredFolder)
        with_what = "" if is_stored else f", with another checkpoint than {folder}"
        return (
            f"ANOTHER_COPY: {self._job} already runs on {claim.host} (run {claim.run}){with_what}: "
            "stop one of the two"
        )


def _without(added: Mapping[str, set[int]], offsets: Offsets) -> Offsets:
    """What is not committed yet stays so until the job reads it: by that it is known as new."""
    return {
        topic: {p: offset for p, offset in its.items() if p not in added.get(topic, ())}
        for topic, its in offsets.items()
    }


def _lock(path: Path, job: str) -> int:
    """Held until this process ends. A frozen one holds it, too."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 200).decode(errors="replace").strip()
        os.close(lock)
        raise AnotherCopyError(
            f"ANOTHER_COPY: {job} already runs on this checkpoint ({holder} holds {path}): end "
            "that process first; kill -9 ends one that is frozen"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"process {os.getpid()} on {_host()}\n".encode(), 0)
    return lock


def _host() -> str:
    return socket.gethostname()
