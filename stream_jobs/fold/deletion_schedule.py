"""When what is deleted in a bucket may be forgotten: by spans of time, so that nobody has to look
for it among all that is not deleted."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import orjson

from stream_jobs.state.bulk_map_state import Key, ManyStates

# no entity has such a name
_ALL_SPANS: Key = ("", "")
_SPANS = 64


class DeletionSchedule:
    """Between `begin` and `write` of one bucket at a time."""

    def __init__(self, states: ManyStates, kept_ms: int) -> None:
        self._states = states
        self._kept_ms = kept_ms
        self._span_ms = max(1, kept_ms // _SPANS)
        self._asked: Callable[[], list[bytes | None]]
        self._new: defaultdict[int, dict[Key, int]] = defaultdict(dict)
        self._past: set[int] = set()

    def begin(self) -> None:
        self._asked = self._states.ask([_ALL_SPANS])

    def add(self, key: Key, ended_ms: int) -> None:
        end = -(-ended_ms // self._span_ms) * self._span_ms
        self._new[end][key] = ended_ms

    def due(self, now_ms: int) -> Iterator[tuple[Key, int]]:
        """Each once, with when it ended; a span is over when all of it is."""
        self._past = {end for end in self._ends() if end + self._kept_ms <= now_ms}
        past = [_span(end) for end in sorted(self._past)]
        for raw in self._states.get(past):
            yield from _read(raw).items()

    def write(self) -> None:
        if not self._new and not self._past:
            return
        known = self._ends() - self._past
        again = sorted(known & self._new.keys())
        for end, raw in zip(again, self._states.get([_span(end) for end in again]), strict=True):
            self._new[end] = _read(raw) | self._new[end]
        self._states.remove([_span(end) for end in self._past])
        self._states.put({_span(end): _written(its) for end, its in self._new.items()})
        if ends := sorted(known | self._new.keys()):
            self._states.put({_ALL_SPANS: orjson.dumps(ends)})
        else:
            self._states.remove([_ALL_SPANS])
        self._new.clear()
        self._past = set()

    def _ends(self) -> set[int]:
        (raw,) = self._asked()
        return set(orjson.loads(raw or b"[]"))


def _span(end: int) -> Key:
    return "", str(end)


def _read(raw: bytes | None) -> dict[Key, int]:
    return {(entity, its_id): ended_ms for entity, its_id, ended_ms in orjson.loads(raw or b"[]")}


def _written(its: Mapping[Key, int]) -> bytes:
    return orjson.dumps([(*key, ended_ms) for key, ended_ms in its.items()])
