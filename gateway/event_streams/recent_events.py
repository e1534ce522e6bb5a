"""The last records of the event topics, in memory, for who was away for a moment. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Sequence

from gateway.event_streams.shown_event import Shown, shown
from gateway.streams.log_position import LogPosition, is_behind
from shared.events.envelope import Position
from shared.events.event_reader import EventReader

_RECORD_BYTES = 550  # of a record, beside its bytes
_MARK_EVERY = 256
_FORGOTTEN_AT_ONCE = 512


class EventEntry:
    """A record as the log has it, and what is sent of it, made when the first reader takes it."""

    __slots__ = ("_shown", "key", "place", "position", "value")

    def __init__(self, place: int, position: Position, key: bytes, value: bytes) -> None:
        self.place = place
        self.position = position
        self.key = key
        self.value = value
        self._shown: Shown | bool | None = False

    def shown(self, reader: EventReader) -> Shown | None:
        if isinstance(self._shown, bool):
            self._shown = shown(reader, self.position, self.key, self.value)
        return self._shown

    @property
    def bytes(self) -> int:
        return len(self.key) + 2 * len(self.value) + _RECORD_BYTES


class RecentEvents:
    """`first`: the number of the first that is there, `end`: of the next one. Whoever has read at
    least as far as `begins` needs nothing else to come to `now`."""

    def __init__(self, begins: Sequence[int], bytes_max: int) -> None:
        self.now = LogPosition(begins)
        self.begins = [*begins]
        self.bytes = 0
        self._bytes_max = bytes_max
        self._entries: list[EventEntry] = []
        self.first = 0
        self._gone = 0  # at the front of the list, and not yet removed from it
        self._marks: list[tuple[int, list[int]]] = []  # number, offsets before it

    @property
    def end(self) -> int:
        return self.first - self._gone + len(self._entries)

    def put(self, entry: EventEntry) -> None:
        if self.end % _MARK_EVERY == 0:
            self._marks.append((self.end, [*self.now.offsets]))
        self._entries.append(entry)
        self.bytes += entry.bytes
        self.now.advance(entry.place, entry.position.offset + 1)
        while self.bytes > self._bytes_max:
            self._forget_first()

    def _forget_first(self) -> None:
        entry = self._entries[self._gone]
        self.begins[entry.place] = entry.position.offset + 1
        self.bytes -= entry.bytes
        self.first += 1
        self._gone += 1
        if self._gone >= _FORGOTTEN_AT_ONCE:
            del self._entries[: self._gone]
            self._gone = 0
            while self._marks and self._marks[0][0] < self.first:
                del self._marks[0]

    def have_all_since(self, offsets: Sequence[int], places: Collection[int]) -> bool:
        return not is_behind(offsets, self.begins, places)

    def number_for(self, offsets: Sequence[int], places: Collection[int]) -> int:
        """From which on to look for what a reader lacks: all before is known to it."""
        found = bisect_right(
            self._marks,
            False,
            key=lambda mark: is_behind(offsets, mark[1], places),
        )
        return max(self.first, self._marks[found - 1][0] if found else 0)

    def since(self, number: int, most: int) -> list[EventEntry]:
        begin = max(number, self.first) - self.first + self._gone
        return self._entries[begin : begin + most]
