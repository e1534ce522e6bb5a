"""When each line of a bucket is to be looked at again, and with which rows: in a few parts. All are
read in each batch, and to ask Spark for one after the other takes far longer than to read them."""

from collections.abc import Callable
from zlib import crc32

import orjson

from shared.retry_policy import LineRules
from stream_jobs.state.bulk_map_state import Key, ManyStates
from stream_jobs.waiting.lane_clock import LaneClock
from stream_jobs.waiting.line import Look

FOR_EVER_MS = 2**52
_CLOCK: Key = ("clock", "", "")
# where one changes its part is written
_PARTS = 8


class Looks:
    """Between `begin` and `write` of one bucket at a time."""

    def __init__(self, states: ManyStates) -> None:
        self._states = states
        self._asked: Callable[[], list[bytes | None]]
        self._parts: list[dict[str, Look]] = []
        self._changed: set[int] = set()

    def begin(self) -> None:
        self._parts = []
        self._asked = self._states.ask([_name(part) for part in range(_PARTS)])

    def all(self) -> dict[str, Look]:
        return {key: look for part in self._read() for key, look in part.items()}

    def put(self, key: str, look: Look) -> None:
        part = crc32(key.encode()) % _PARTS
        self._read()[part][key] = look
        self._changed.add(part)

    def remove(self, key: str) -> None:
        part = crc32(key.encode()) % _PARTS
        if self._read()[part].pop(key, None) is not None:
            self._changed.add(part)

    def write(self) -> None:
        changed = {part: self._parts[part] for part in sorted(self._changed)}
        self._states.put({_name(part): _written(looks) for part, looks in changed.items() if looks})
        self._states.remove([_name(part) for part, looks in changed.items() if not looks])
        self._changed.clear()

    def _read(self) -> list[dict[str, Look]]:
        if not self._parts:
            self._parts = [
                {
                    key: Look(due_ms[0] if due_ms else None, old_ms, rows)
                    # earlier versions wrote no time of day
                    for key, old_ms, rows, *due_ms in orjson.loads(raw or b"[]")
                }
                for raw in self._asked()
            ]
        return self._parts


class StoredClock:
    """The clock of a bucket's lines, and the rules that they were kept by, in its state: as long as
    any of them waits."""

    def __init__(self, states: ManyStates, holds_ms: int, rules: LineRules) -> None:
        self._states = states
        self._rules = f"{crc32(repr(rules).encode()):x}"
        self._holds_ms = holds_ms
        self._asked: Callable[[], list[bytes | None]]
        self._is_kept = False
        self.rules_differ = True

    def begin(self) -> None:
        self._asked = self._states.ask([_CLOCK])

    def at(self, now_ms: int, as_of_ms: int | None) -> LaneClock:
        """In a batch. Where nothing has waited it begins as one that runs."""
        (raw,) = self._asked()
        self._is_kept = raw is not None
        kept = orjson.loads(raw) if raw else [now_ms, as_of_ms or now_ms, 0]
        self.rules_differ = kept[3:] != [self._rules]  # earlier versions wrote none
        known = LaneClock(*kept[:3])
        return known.at(now_ms, as_of_ms, self._holds_ms)

    def time_of_day(self, at_ms: int | None, clock: LaneClock) -> int | None:
        """When a time of that clock comes. None: while the clock stands it does not, and a wake
        will tell when it runs again."""
        if at_ms is None or clock.stands(self._holds_ms):
            return None
        return at_ms + clock.stood_ms

    def keep(self, clock: LaneClock | None) -> None:
        if clock is not None:
            self._states.put({_CLOCK: orjson.dumps((*clock, self._rules))})
        elif self._is_kept:
            self._states.remove([_CLOCK])


def _name(part: int) -> Key:
    return "looks", "", str(part)


def _written(looks: dict[str, Look]) -> bytes:
    return orjson.dumps(
        [(key, look.old_ms, sorted(look.rows), look.due_ms) for key, look in looks.items()]
    )
