"""What became of a record that was given to the log."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from shared.envelope import Header


class Receipt(NamedTuple):
    topic: str
    partition: int
    offset: int


class NotWritten(Exception):  # noqa: N818 - an outcome
    """Definite: the record never left this process, or the broker refused it whole."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class OutcomeUnknown(Exception):  # noqa: N818 - an outcome
    """The record may have been written, now or a little later."""


class Record(NamedTuple):
    key: bytes
    value: bytes
    headers: list[Header]


class Log(Protocol):
    async def append(self, topic: str, record: Record) -> Receipt: ...

    async def append_all(
        self, topic: str, records: Sequence[Record]
    ) -> "list[Receipt | NotWritten | OutcomeUnknown]": ...

    def is_healthy(self) -> bool: ...
