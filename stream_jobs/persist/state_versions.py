"""Which of the snapshots that came are versions to keep, and in which life of their entity. Pure.

A null ends a life: the versions of the next one begin again with 1.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stream_jobs.persist.rows import GoneRow, StateRow

Versioned = StateRow | GoneRow


class Life(NamedTuple):
    """The versions of many entities at once, each higher than the one before, then their ends."""

    versions: list[StateRow]
    ends: list[GoneRow]


def by_lives(rows: Iterable[Versioned]) -> Iterator[Life]:
    """What is to be written one after the other: for nearly all, it is one part."""
    lives: list[Life] = []
    numbers: dict[tuple[str, str], int] = {}
    newest: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: row.record.position):
        key = row.entity, row.id
        number = numbers.get(key, 0)
        while len(lives) <= number:
            lives.append(Life([], []))
        if isinstance(row, GoneRow):
            lives[number].ends.append(row)
            numbers[key] = number + 1
            newest.pop(key, None)
        elif key not in newest or row.version > newest[key]:
            lives[number].versions.append(row)
            newest[key] = row.version
    yield from lives
