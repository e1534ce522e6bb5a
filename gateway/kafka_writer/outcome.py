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

    def fields(self) -> dict[str, str | int | bool]:
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


class Spooled(NamedTuple):
    """On this node's disk; it goes to the topic as soon as Kafka takes it."""

    topic: str

    def fields(self) -> dict[str, str | int | bool]:
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
OnWritten = Callable[[list[Outcome]], None]  # of what became of each record, in their order


class Record(NamedTuple):
    key: bytes
    value: bytes
    headers: list[Header]


class Log(Protocol):
    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        """One or more records of one entity, that come together. `on_written` is called once,
        with what became of each, at the deadline at the latest. An entity's records stay in the
        order in which they were put."""

    def is_healthy(self) -> bool:
        """Whether a record that is put now has a chance."""


class PartitionedLog(Log, Protocol):
    def forget(self, topic: str) -> None:
        """How many partitions it has: it may have been made anew, or got more. Only for who has
        nothing of it under way."""


def put_all(log: Log, records: Sequence[tuple[str, Record]], on_written: OnWritten) -> None:
    """`on_written` is called when the last outcome is known."""
    numbers_of: dict[tuple[str, bytes], list[int]] = {}
    for number, (topic, record) in enumerate(records):
        numbers_of.setdefault((topic, record.key), []).append(number)
    if not records:
        on_written([])
    elif len(numbers_of) == 1:
        log.put(records[0][0], [record for _, record in records], on_written)
    else:
        known: dict[int, Outcome] = {}
        count = len(records)

        def on_some_written(numbers: list[int], outcomes: list[Outcome]) -> None:
            known.update(zip(numbers, outcomes, strict=True))
            if len(known) == count:
                on_written([known[number] for number in range(count)])

        for (topic, _), numbers in numbers_of.items():
            some = [records[number][1] for number in numbers]
            log.put(topic, some, partial(on_some_written, numbers))


async def append_all(log: Log, records: Sequence[tuple[str, Record]]) -> list[Outcome]:
    all_written: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

    def on_written(outcomes: list[Outcome]) -> None:
        if not all_written.done():  # or nobody waits any more
            all_written.set_result(outcomes)

    put_all(log, records, on_written)
    return await all_written
