"""Reads the view. A read takes tens of microseconds, so it runs in the event loop."""

from pathlib import Path
from typing import Any, NamedTuple

from gateway.state_view.view_file import ViewFile

_FIND = """
SELECT t.warm, t.caught_up_ms, r.value, r.version, r.timestamp_ms, r.partition,
  r.offset, r.checksum
FROM topic t LEFT JOIN record r ON r.topic = t.name AND r.key = ? WHERE t.name = ?
"""
_MARK = """
SELECT t.topic_id, t.warm, p.partition, p.next_offset
FROM topic t LEFT JOIN position p ON p.topic = t.name WHERE t.name = ? ORDER BY p.partition
"""
_READ_TO = """
SELECT p.partition, p.next_offset FROM topic t JOIN position p ON p.topic = t.name
WHERE t.warm AND (t.name = ? OR t.name GLOB ?)
"""
_ALL = """
SELECT key, value, version, timestamp_ms, partition, offset, checksum FROM record WHERE topic = ?
"""
_ALL_IF_WARM = """
SELECT r.key, r.value, r.version, r.timestamp_ms, r.partition, r.offset, r.checksum
FROM topic t LEFT JOIN record r ON r.topic = t.name
WHERE t.name = ? AND t.warm
"""

_BETWEEN = """
SELECT r.key, r.value, r.version, r.timestamp_ms, r.partition, r.offset, r.checksum
FROM topic t LEFT JOIN (
  SELECT * FROM record WHERE topic = ? AND key > ? AND key < ? ORDER BY key LIMIT ?) r
WHERE t.name = ? AND t.warm ORDER BY r.key
"""


# what has become of a partition in between, as far as it was read: of each key the last
_CHANGED = """
SELECT r.key, r.value, r.version, r.timestamp_ms, r.partition, r.offset, r.checksum
FROM topic t JOIN position p ON p.topic = t.name LEFT JOIN (
  SELECT * FROM record WHERE topic = ? AND partition = ? AND offset >= ? AND offset < ?
  AND topic GLOB 'view.*' ORDER BY offset LIMIT ?) r
WHERE t.name = ? AND t.topic_id = ? AND p.partition = ? AND p.next_offset >= ? ORDER BY r.offset
"""


_COUNT = "SELECT count(*) FROM record WHERE topic = ? AND topic GLOB 'view.*'"


class Found(NamedTuple):
    value: bytes
    timestamp_ms: int
    partition: int
    offset: int


class Keyed(NamedTuple):
    key: bytes
    value: bytes


class Changed(NamedTuple):
    key: bytes
    value: bytes
    offset: int


class Progress(NamedTuple):
    warm: bool
    caught_up_ms: int | None
    skipped: int = 0


class StateView:
    def __init__(self, state_dir: Path) -> None:
        self._file = ViewFile(state_dir)

    def find(self, topic: str, key: bytes) -> tuple[Progress, Found | None]:
        rows = self._file.query(_FIND, (key, topic))
        if not rows:
            return Progress(False, None), None
        warm, caught_up_ms, value, *row = rows[0]
        progress = Progress(bool(warm), caught_up_ms)
        if value is None:
            return progress, None
        if not self._file.are_sound([(key, value, *row)]):
            return Progress(False, None), None
        _, timestamp_ms, partition, offset, _ = row
        return progress, Found(value, timestamp_ms, partition, offset)

    def progress(self) -> dict[str, Progress]:
        rows = self._file.query("SELECT name, warm, caught_up_ms, skipped FROM topic", ())
        return {name: Progress(bool(warm), at_ms, skipped) for name, warm, at_ms, skipped in rows}

    def values(self, topic: str) -> dict[bytes, bytes]:
        """All values of a topic that has few records."""
        rows = self._file.query(_ALL, (topic,))
        return {key: value for key, value, *_ in rows} if self._file.are_sound(rows) else {}

    def mark(self, topic: str) -> list[tuple[Any, ...]]:
        """Another one wherever the topic's values may be others."""
        return self._file.query(_MARK, (topic,))

    def values_if_warm(self, topic: str) -> dict[bytes, bytes] | None:
        """None where not all of them have been read from Kafka yet."""
        rows = self._file.query(_ALL_IF_WARM, (topic,))
        there = [row for row in rows if row[0] is not None]
        return (
            {k: value for k, value, *_ in there} if rows and self._file.are_sound(there) else None
        )

    def topic_progress(self, topic: str) -> Progress:
        rows = self._file.query("SELECT warm, caught_up_ms FROM topic WHERE name = ?", (topic,))
        return Progress(bool(rows[0][0]), rows[0][1]) if rows else Progress(False, None)

    def between(self, topic: str, after: bytes, before: bytes, at_most: int) -> list[Keyed] | None:
        """In the order of their keys; None where they cannot be told now."""
        rows = self._file.query(_BETWEEN, (topic, after, before, at_most, topic))
        there = [row for row in rows if row[0] is not None]
        if not rows or not self._file.are_sound(there):
            return None
        return [Keyed(key, value) for key, value, *_ in there]

    def changed(
        self, topic: str, topic_id: str, partition: int, begin: int, end: int, at_most: int
    ) -> list[Changed] | None:
        """Rows of a view by the offset of their last change; None where they cannot be told now."""
        at = topic, partition, begin, end, at_most, topic, topic_id, partition, end
        rows = self._file.query(_CHANGED, at)
        there = [row for row in rows if row[0] is not None]
        if not rows or not self._file.are_sound(there):
            return None
        return [Changed(key, value, offset) for key, value, _, _, _, offset, _ in there]

    def count_of_view(self, topic: str) -> int:
        """Out of an index alone, so that many take little time."""
        rows = self._file.query(_COUNT, (topic,))
        return int(rows[0][0]) if rows else 0

    def gateways(self) -> list[str]:
        """Among which states are divided."""
        return [url for (url,) in self._file.query("SELECT url FROM gateway ORDER BY url", ())]

    def divided(self) -> dict[str, int]:
        """Topics whose partitions are, and how many these are."""
        return dict(self._file.query("SELECT topic, partitions FROM divided", ()))

    def trouble_of_division(self) -> str:
        """Why states may be held less often than they are to be; empty: nothing is wrong."""
        rows = self._file.query("SELECT words FROM trouble", ())
        return str(rows[0][0]) if rows else "how states are divided is not known yet"

    def read_to(self, topic: str) -> dict[int, int]:
        """Up to where its partitions are read, of those that are held and were once read to their
        ends."""
        return dict(self._file.query(_READ_TO, (topic, f"{topic}/*")))

    def close(self) -> None:
        self._file.close()
