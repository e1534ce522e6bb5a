"""Two versions of a view, row by row: where they say the same of the same part of the log. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any, NamedTuple

from shared.model import Fields
from shared.timestamps import from_rfc3339

_META = "_meta"
# a sum of numbers with a fraction depends on their order, and that on the batches
_SAME_TO = 1e-9


class Rows(NamedTuple):
    """As GET /views tells them, by the text of their keys."""

    by_key: dict[str, Fields]
    read_to_ms: int  # the log up to then is in all of them

    @classmethod
    def of(cls, rows: Sequence[Fields], key: Sequence[str], read_to: str | None) -> "Rows":
        by_key = {
            ", ".join(f"{name}={json.dumps(row[name])}" for name in key if name in row): row
            for row in rows
        }
        return cls(by_key, from_rfc3339(read_to) if read_to else 0)

    def times(self, key: str) -> tuple[int, int]:
        """From when to when, by the log's clock, the view has said this of that key."""
        row = self.by_key.get(key)
        since_ms = row[_META]["version"] if row else 0
        return since_ms, max(since_ms, self.read_to_ms)


class Difference(NamedTuple):
    key: str
    # None where it has no such row; else what the other one says otherwise
    old: Fields | None
    new: Fields | None


class Compared(NamedTuple):
    alike: int
    differences: list[Difference]
    undecided: int  # the two have not said it of one part of the log


def compare(old: Rows, new: Rows) -> Compared:
    keys = [*dict.fromkeys((*old.by_key, *new.by_key))]
    decided = [key for key in keys if _of_one_part(old.times(key), new.times(key))]
    found = [*_differences(decided, old.by_key, new.by_key)]
    return Compared(len(decided) - len(found), found, len(keys) - len(decided))


def columns_of_one_alone(old: Rows, new: Rows) -> tuple[list[str], list[str]]:
    """Which are compared with nothing."""
    its, others = (
        dict.fromkeys(name for row in rows.by_key.values() for name in row) for rows in (old, new)
    )
    if not its or not others:
        return [], []
    return [name for name in its if name not in others], [
        name for name in others if name not in its
    ]


def _of_one_part(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) <= min(one[1], other[1])


def _differences(
    keys: Sequence[str], old: Mapping[str, Fields], new: Mapping[str, Fields]
) -> Iterator[Difference]:
    for key in keys:
        its, others = old.get(key), new.get(key)
        if its is None or others is None:
            yield Difference(key, its, others)
            continue
        names = [
            name
            for name in its
            if name != _META and name in others and not _is_same(its[name], others[name])
        ]
        if names:
            yield Difference(
                key, {name: its[name] for name in names}, {name: others[name] for name in names}
            )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return isclose(one, other, rel_tol=_SAME_TO)
    return bool(one == other)
