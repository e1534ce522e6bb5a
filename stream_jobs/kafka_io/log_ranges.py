"""Which records of which partitions belong to a batch, and to each of its tasks. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from clients.kafka.records import LogRange, Offsets
from shared.errors import LogCutError

# so few are done sooner than a second task is started
_WORTH_A_TASK = 500


def as_json(offsets: Offsets) -> dict[str, Any]:
    """In one order: Spark compares the text."""
    return {
        topic: {str(partition): offsets[topic][partition] for partition in sorted(offsets[topic])}
        for topic in sorted(offsets)
    }


def ranges(start: Offsets, end: Offsets) -> list[LogRange]:
    """A partition that is new begins with its first record."""
    found = []
    for topic, partitions in end.items():
        for partition, its_end in partitions.items():
            begin = start.get(topic, {}).get(partition, 0)
            if its_end < begin:
                raise LogCutError(f"{topic}/{partition} ends at {its_end}, it was read to {begin}")
            if its_end > begin:
                found.append(LogRange(topic, partition, begin, its_end))
    return found


def left_of(start: Offsets, end: Offsets, ahead: Offsets) -> list[LogRange]:
    """The ranges of a batch that were not done ahead of it."""
    return [
        one._replace(start=begin)
        for one in ranges(start, end)
        if (begin := max(one.start, ahead.get(one.topic, {}).get(one.partition, 0))) < one.end
    ]


def planned(start: Offsets, ends: Offsets, records_max: int) -> Offsets:
    """Where the next batch ends: everywhere the same part of what is there, where it is too much.
    What is not there any more stays where it was."""
    there = ranges(start, ends)
    total = sum(one.records for one in there)
    found = {topic: dict(partitions) for topic, partitions in start.items()}
    for one in there:
        share = one.records
        if total > records_max:
            share = max(1, one.records * records_max // total)
        found.setdefault(one.topic, {})[one.partition] = one.start + share
    if there:  # then those, too, that are new and have nothing yet
        for topic, partitions in ends.items():
            for partition in (number for number, end in partitions.items() if end == 0):
                found.setdefault(topic, {}).setdefault(partition, 0)
    return found


def shared_out(its: Sequence[LogRange], tasks_max: int) -> Iterator[list[LogRange]]:
    """The largest first, each to the task that has least."""
    total = sum(one.records for one in its)
    count = min(tasks_max, len(its), -(-total // _WORTH_A_TASK))
    tasks: list[list[LogRange]] = [[] for _ in range(count)]
    loads = [0] * count
    for one in sorted(its, key=lambda one: -one.records):
        least = loads.index(min(loads))
        tasks[least].append(one)
        loads[least] += one.records
    yield from tasks
