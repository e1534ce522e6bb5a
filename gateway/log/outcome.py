"""What became of a record that was given to the log."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from shared.events.envelope import Header


class Receipt(NamedTuple):
    """On all in-sync replicas, at this place."""

    topic: str
    partition: int
    offset: int

    def told(self) -> dict[str, str | int | bool]:
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


class Spooled(NamedTuple):
    """On this node's disk; it goes to the topic as soon as Kafka takes it."""

    topic: str

    def told(self) -> dict[str, str | int | bool]:
        return {"topic": self.topic, "spooled": True}


class NotWritten(Exception):  # noqa: N818 - an outcome
    """Definite: the record never left this process, or the broker refused it whole."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class OutcomeUnknown(Exception):  # noqa: N818 - an outcome
    """The record may have been written, now or a little later."""


Outcome = Receipt | Spooled | NotWritten | OutcomeUnknown
Tell = Callable[[list[Outcome]], None]


class Record(NamedTuple):
    key: bytes
    value: bytes
    headers: list[Header]


class Log(Protocol):
    def put(self, topic: str, records: Sequence[Record], tell: Tell) -> None:
        """One or more records of one entity, that come together. `tell` is called once, with what
        became of each, at the deadline at the latest. An entity's records stay in the order in
        which they were put."""

    def is_healthy(self) -> bool:
        """Whether a record that is put now has a chance."""


def put_all(log: Log, records: Sequence[tuple[str, Record]], tell: Tell) -> None:
    """Tells the outcome of each, when the last one is known."""
    numbers_of: dict[tuple[str, bytes], list[int]] = {}
    for number, (topic, record) in enumerate(records):
        numbers_of.setdefault((topic, record.key), []).append(number)
    if not records:
        tell([])
    elif len(numbers_of) == 1:
        log.put(records[0][0], [record for _, record in records], tell)
    else:
        told: dict[int, Outcome] = {}
        count = len(records)

        def keep(numbers: list[int], outcomes: list[Outcome]) -> None:
            told.update(zip(numbers, outcomes, strict=True))
            if len(told) == count:
                tell([told[number] for number in range(count)])

        for (topic, _), numbers in numbers_of.items():
            log.put(topic, [records[number][1] for number in numbers], partial(keep, numbers))


async def append_all(log: Log, records: Sequence[tuple[str, Record]]) -> list[Outcome]:
    all_told: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

    def tell(outcomes: list[Outcome]) -> None:
        if not all_told.done():  # or nobody waits any more
            all_told.set_result(outcomes)

    put_all(log, records, tell)
    return await all_told
