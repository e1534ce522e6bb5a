"""What has come and is not done: a line for each partition, served in its order. Pure."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .events import Record

Partition = tuple[str, int]  # of a topic


@dataclass(slots=True)
class Line:
    records: deque[Record] = field(default_factory=deque)
    attempts: int = 0  # at the first of them
    due_s: float = 0.0  # it is not tried before that

    def done(self) -> None:
        """With the first of them."""
        self.records.popleft()
        self.attempts, self.due_s = 0, 0.0


class Lines:
    def __init__(self) -> None:
        self._lines: dict[Partition, Line] = {}

    def add(self, record: Record) -> None:
        own = self._lines.setdefault(record.position[:2], Line())
        own.records.append(record)

    def drop(self, partition: Partition) -> None:
        self._lines.pop(partition, None)

    def take_all(self, others: "Lines") -> None:
        for line in others._lines.values():
            for record in line.records:
                self.add(record)
        others._lines.clear()

    def unfinished(self) -> Iterator[tuple[Partition, Line]]:
        return ((partition, line) for partition, line in self._lines.items() if line.records)

    def firsts(self) -> dict[Partition, int]:
        """The offset of the first of each line."""
        return {partition: line.records[0].position.offset for partition, line in self.unfinished()}

    def ends(self) -> dict[Partition, int]:
        """The offset behind the last of each line."""
        return {
            partition: line.records[-1].position.offset + 1 for partition, line in self.unfinished()
        }

    def wait_s(self, now_s: float, most_s: float) -> float:
        """Until the next of them is due."""
        due = (line.due_s - now_s for _, line in self.unfinished())
        return min(max(0.0, min(due, default=most_s)), most_s)
