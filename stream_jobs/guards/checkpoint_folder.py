"""Where a job's checkpoint is: in a folder, or under a prefix of an object store.

Spark reaches the store through Hadoop. The notes of our own beside Spark's files go past the JVM:
the process that plans batches has none. Both find their keys and the server's address as all
clients of the store do, in AWS_ACCESS_KEY_ID and its like, or from the machine's role.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import CheckpointsAwayError

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

    from shared.settings import JobSettings

SCHEME = "s3a://"
# together less than a lease: the driver asks in the thread that renews its claim
_CONNECTS_WITHIN_S, _ANSWERS_WITHIN_S, _TRIES = 2.0, 4.0, 2


@dataclass(frozen=True)
class StoredFolder:
    """As much of a Path as checkpoints need."""

    key: str  # bucket/prefix

    def __str__(self) -> str:
        return SCHEME + self.key

    def __truediv__(self, name: str) -> "StoredFolder":
        return StoredFolder(f"{self.key}/{name}")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def with_name(self, name: str) -> "StoredFolder":
        return StoredFolder(f"{self.key.rpartition('/')[0]}/{name}")

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        with self._asked():
            found = _store().get_file_info(FileSelector(self.key, allow_not_found=True))
        if not found:
            self._look_for_bucket()
        return [one.base_name for one in found]

    def _look_for_bucket(self) -> None:
        """One that is not there has no names in it, either, and yet no checkpoint was lost. Who may
        not ask for it is not told."""
        from pyarrow.fs import FileType

        bucket = self.key.partition("/")[0]
        with suppress(OSError):
            if _store().get_file_info(bucket).type == FileType.NotFound:
                raise CheckpointsAwayError(f"{self} cannot be reached: there is no bucket {bucket}")

    def read_bytes(self) -> bytes:
        with self._asked(), _store().open_input_stream(self.key) as stream:
            return bytes(stream.read())

    def write_bytes(self, said: bytes) -> None:
        """All of it or nothing, for whoever reads meanwhile."""
        with self._asked(), _store().open_output_stream(self.key) as stream:
            stream.write(said)

    def remove(self) -> None:
        with suppress(FileNotFoundError), self._asked():
            _store().delete_dir(self.key)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise CheckpointsAwayError(f"{self} cannot be reached: {error}") from None


CheckpointFolder = Path | StoredFolder


def checkpoint_of(settings: "JobSettings", job: str) -> CheckpointFolder:
    return checkpoints_of(settings) / job


def checkpoints_of(settings: "JobSettings") -> CheckpointFolder:
    return folder_at(settings.checkpoint_store or settings.checkpoints)


def folder_at(place: Path | str) -> CheckpointFolder:
    stored = isinstance(place, str) and place.startswith(SCHEME)
    return StoredFolder(str(place).removeprefix(SCHEME).rstrip("/")) if stored else Path(place)


def names_in(folder: CheckpointFolder) -> list[str]:
    """Nothing where there is no such folder."""
    if isinstance(folder, StoredFolder):
        return folder.names()
    return [path.name for path in folder.glob("*")]


def replace(file: CheckpointFolder, said: bytes, *, synced: bool = False) -> None:
    """Whoever reads it meanwhile finds what it said before, or all of this."""
    if isinstance(file, StoredFolder):
        file.write_bytes(said)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    with new.open("wb") as written:
        written.write(said)
        if synced:
            written.flush()
            os.fsync(written.fileno())
    new.replace(file)


def remove(folder: CheckpointFolder) -> None:
    """OSError or CheckpointsAwayError where any of it may be left under its name."""
    if isinstance(folder, StoredFolder):
        folder.remove()
        return
    if folder.is_symlink() or folder.is_mount():  # it keeps its place
        for its in folder.iterdir():
            shutil.rmtree(its) if its.is_dir() else its.unlink()
        return
    gone = folder.with_name(f"{folder.name}.removed")
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def endpoint() -> str | None:
    """The address of a server that is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


@cache
def _store() -> "S3FileSystem":
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        endpoint_override=endpoint(),
        region=region() or ("us-east-1" if endpoint() else None),
        connect_timeout=_CONNECTS_WITHIN_S,
        request_timeout=_ANSWERS_WITHIN_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
