"""What devices sent, and what they were told, kept on disk from before it was sent."""

import asyncio
import base64
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.ledger import Told

EVENT, WAITING = "event", "waiting"


class Message(NamedTuple):
    """A payload that a device means to send, however often it has to."""

    number: int
    endpoint: str
    device: str
    body: bytes  # no other message of the run has the same
    key: str | None  # its Idempotency-Key; None: each copy is an event of its own
    fate: str  # EVENT, WAITING, or the reason of the letter that it must end as

    @property
    def topic(self) -> str:
        return f"ingest.{self.endpoint}.v1"

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()


class Answer(NamedTuple):
    """To one try."""

    told: Told
    id: str | None = None
    place: tuple[str, int, int] | None = None  # topic, partition, offset

    @property
    def accepts(self) -> bool:
        return self.told in (Told.WRITTEN, Told.SPOOLED)


class Sends:
    """A line before each try and one after. Before a try, its line is on the disk. What an earlier
    run has written into the same file counts as sent, too."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._syncing = asyncio.Lock()
        self._written = self._synced = 0
        self.messages: list[Message] = []
        self.answers: dict[int, list[Answer]] = {}
        self.tries = 0
        for line in path.read_bytes().splitlines():
            self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        if "try" in said:
            self.tries += 1
        elif "told" in said:
            place = said["place"] and tuple(said["place"])
            self.answers[said["number"]].append(Answer(Told(said["told"]), said["id"], place))
        else:
            self._keep(Message(**{**said, "body": base64.b64decode(said["body"])}))

    def _keep(self, message: Message) -> None:
        self.messages.append(message)
        self.answers[message.number] = []

    def add(self, message: Message) -> None:
        self._keep(message)
        body = base64.b64encode(message.body).decode()
        self._write({**message._asdict(), "body": body})

    async def before(self, message: Message) -> None:
        self.tries += 1
        self._write({"try": message.number})
        mine = self._written
        async with self._syncing:  # whoever waits shares the next one's
            if self._synced < mine:
                until = self._written
                await asyncio.to_thread(os.fsync, self._file)
                self._synced = until

    def after(self, message: Message, answer: Answer) -> None:
        self.answers[message.number].append(answer)
        self._write({"number": message.number, **answer._asdict()})

    def is_accepted(self, message: Message) -> bool:
        return any(answer.accepts for answer in self.answers[message.number])

    def close(self) -> None:
        os.close(self._file)

    def _write(self, said: dict[str, object]) -> None:
        os.write(self._file, json.dumps(said).encode() + b"\n")
        self._written += 1
