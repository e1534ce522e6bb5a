"""What devices sent, and what they were told, kept on disk from before it was sent."""

import asyncio
import base64
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.client_answers import Told

EVENT, WAITING = "event", "waiting"


class Message(NamedTuple):
    """A payload that a device means to send, however often it has to."""

    number: int
    endpoint: str
    device: str
    body: bytes  # no other message of the run has the same
    key: str | None  # its Idempotency-Key; None: each copy is an event of its own
    fate: str  # EVENT, WAITING, or the reason of the letter that it must end as
    is_line: bool = False  # of NDJSON: the key is that of all its lines

    @property
    def topic(self) -> str:
        return f"ingest.{self.endpoint}.v1"

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    @property
    def known_as(self) -> tuple[str, ...] | None:
        """By what a repeat of it is known: a line by its key and what it holds."""
        if self.key is None:
            return None
        return (self.key, self.digest) if self.is_line else (self.key,)


class Answer(NamedTuple):
    """To one try."""

    told: Told
    id: str | None = None
    place: tuple[str, int, int] | None = None  # topic, partition, offset
    # when it was sent and when it was answered, counted in requests and answers of the whole run;
    # what was sent at the same moment went in one request
    sent_at: int = 0
    answered_at: int = 0

    @property
    def accepts(self) -> bool:
        return self.told in (Told.WRITTEN, Told.SPOOLED)


class Sends:
    """A line before each try and one after. Before a try, its line is on the disk. What an earlier
    run has written into the same file counts as sent, too."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._syncing = asyncio.Lock()
        self._written = self._synced = self._moment = 0
        self.messages: list[Message] = []
        self.answers: dict[int, list[Answer]] = {}
        self.tries = 0
        for line in path.read_bytes().splitlines():
            self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        if "try" in said:
            self.tries += len(said["try"])
        elif "told" in said:
            place = said["place"] and tuple(said["place"])
            times = said["sent_at"], said["answered_at"]
            answer = Answer(Told(said["told"]), said["id"], place, *times)
            self.answers[said["number"]].append(answer)
            self._moment = max(self._moment, *times)
        else:
            self._keep(Message(**{**said, "body": base64.b64decode(said["body"])}))

    def _keep(self, message: Message) -> None:
        self.messages.append(message)
        self.answers[message.number] = []

    def add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._keep(message)
        self._write(*({**m._asdict(), "body": base64.b64encode(m.body).decode()} for m in messages))

    async def before(self, messages: Sequence[Message]) -> int:
        """When these are sent, in one request."""
        self.tries += len(messages)
        self._write({"try": [message.number for message in messages]})
        mine = self._written
        async with self._syncing:  # whoever waits shares the next one's
            if self._synced < mine:
                until = self._written
                await asyncio.to_thread(os.fsync, self._file)
                self._synced = until
        return self._now()

    def after(self, sent_at: int, messages: Sequence[Message], answers: Sequence[Answer]) -> None:
        now = self._now()
        timed = [answer._replace(sent_at=sent_at, answered_at=now) for answer in answers]
        for message, answer in zip(messages, timed, strict=True):
            self.answers[message.number].append(answer)
        self._write(
            *({"number": m.number, **a._asdict()} for m, a in zip(messages, timed, strict=True))
        )

    def is_accepted(self, message: Message) -> bool:
        return any(answer.accepts for answer in self.answers[message.number])

    def close(self) -> None:
        os.close(self._file)

    def _now(self) -> int:
        self._moment += 1
        return self._moment

    def _write(self, *said: dict[str, object]) -> None:
        raw = b"".join(json.dumps(line).encode() + b"\n" for line in said)
        os.write(self._file, raw)
        self._written += 1
