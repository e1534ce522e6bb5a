"""What each POST was told, kept on disk from before it was sent."""

import json
import os
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class Told(StrEnum):
    WRITTEN = "written"  # at a place
    SPOOLED = "spooled"
    DEFINITE = "definite"
    UNKNOWN = "unknown"  # or no answer at all


class Sent(NamedTuple):
    entity: str
    number: int
    digest: str
    told: Told = Told.UNKNOWN
    place: tuple[int, int] | None = None

    @property
    def is_accepted(self) -> bool:
        return self.told in (Told.WRITTEN, Told.SPOOLED)


class Ledger:
    """A line before a payload goes out and one after, so that a rig that dies has not lied."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.sent: dict[tuple[str, int], Sent] = {}

    def before(self, entity: str, number: int, body: bytes) -> None:
        sent = Sent(entity, number, sha256(body).hexdigest())
        self.sent[entity, number] = sent
        self._write(sent)

    def after(self, entity: str, number: int, told: Told, place: tuple[int, int] | None) -> None:
        sent = self.sent[entity, number]._replace(told=told, place=place)
        self.sent[entity, number] = sent
        self._write(sent)

    def sync(self) -> None:
        os.fsync(self._file)

    def _write(self, sent: Sent) -> None:
        os.write(self._file, json.dumps(sent).encode() + b"\n")
