"""What a bucket keeps in Spark's state: its lines in a few parts, for all are read in each batch,
and each delivery that waits under a key of its own.

All of it stands in one map state: each that a handler has costs some 10 ms of every batch.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self
from zlib import crc32

import orjson

from shared.folding.bursts import DIGEST_CHARS, holds
from shared.folding.snapshot import id_digest
from stream_jobs.forward.delivery import BETWEEN, Delivery, hook_of
from stream_jobs.forward.line import Line, Target, Waiting, dump
from stream_jobs.state.bulk_map_state import Key, ManyStates, States

# of what stands here; raised where an older one could not be read
FORMAT = "2"
# of the ids of an entity that are remembered
_SENT_MAX = 256
# of the entities of a hook that stand together, and how many of those are forgotten in a batch
_PAGE_MAX, _PAGES_AT_ONCE = 250, 8
# how many pages each hook has
_PAGES: Key = ("pages",)
# where a line changes its part is written
_PARTS = 16
_TARGETS: Key = ("targets",)
_LOOK: Key = ("look",)


class Share:
    """What is of one kind in the one state."""

    def __init__(self, states: ManyStates, kind: str) -> None:
        self._states = states
        self._kind = kind

    def get(self, keys: Sequence[Key]) -> list[bytes | None]:
        return self._states.get(self._of_its_kind(keys))

    def put(self, values: Mapping[Key, bytes]) -> None:
        keys = self._of_its_kind(list(values))
        self._states.put(dict(zip(keys, values.values(), strict=True)))

    def remove(self, keys: Sequence[Key]) -> None:
        self._states.remove(self._of_its_kind(keys))

    def _of_its_kind(self, keys: Sequence[Key]) -> list[Key]:
        return [(self._kind, BETWEEN.join(key)) for key in keys]


class KeptLines:
    def __init__(self, states: Share) -> None:
        self._states = states
        self._known: dict[Key, bytes | None] = {}

    def read(self) -> Waiting:
        keys = [_TARGETS, *((str(part),) for part in range(_PARTS))]
        look_ms, *known = self._states.get([_LOOK, *keys])
        self._known = dict(zip(keys, known, strict=True))
        targets, *parts = (orjson.loads(raw or b"{}") for raw in self._known.values())
        return Waiting(
            {key: Line(*told) for part in parts for key, told in part.items()},
            {hook: Target(*told) for hook, told in targets.items()},
            int(look_ms or 0),
        )

    def write(self, waiting: Waiting) -> None:
        parts: dict[Key, dict[str, object]] = {key: {} for key in self._known}
        parts[_TARGETS] = {hook: dump(target) for hook, target in waiting.targets.items()}
        for key, line in waiting.lines.items():
            parts[(str(crc32(key.encode()) % _PARTS),)][key] = dump(line)
        told = {key: orjson.dumps(part) if part else None for key, part in parts.items()}
        changed = {key: raw for key, raw in told.items() if raw != self._known[key]}
        if any(told.values()):
            changed[_LOOK] = str(waiting.look_ms).encode()
        elif any(self._known.values()):
            changed[_LOOK] = None
        self._states.put({key: raw for key, raw in changed.items() if raw is not None})
        self._states.remove([key for key, raw in changed.items() if raw is None])


class KeptSent:
    """Which events of an entity went to a hook that wants none twice: their last ones, for a batch
    of enrich that runs again writes its events again. Pages name the entities of each hook: of one
    that is gone nothing else tells them."""

    def __init__(self, states: Share) -> None:
        self._states = states
        self._pages: dict[str, int] = {}
        self._known: dict[Key, str] = {}
        self._changed: set[Key] = set()
        self._new: dict[str, list[str]] = defaultdict(list)

    def load(self, whose: Iterable[str]) -> None:
        keys = [(one,) for one in dict.fromkeys(whose)]
        pages, *found = self._states.get([_PAGES, *keys])
        self._pages = orjson.loads(pages or b"{}")
        self._known = {key: (raw or b"").decode() for key, raw in zip(keys, found, strict=True)}

    def is_new(self, whose: str, event_id: str) -> bool:
        key, digest = (whose,), id_digest(event_id)
        known = self._known[key]
        if holds(known, digest):
            return False
        if not known:
            self._new[hook_of(whose)].append(whose)
        self._known[key] = (known + digest)[-_SENT_MAX * DIGEST_CHARS :]
        self._changed.add(key)
        return True

    def forget_others(self, hooks: Collection[str]) -> bool:
        """All but what is of these, some in each batch. Whether there is more of it."""
        at_once = [
            (hook, number)
            for hook, count in self._pages.items()
            if hook not in hooks
            for number in reversed(range(count))
        ]
        for hook, number in at_once[:_PAGES_AT_ONCE]:
            page = _page(hook, number)
            self._states.remove([page, *((whose,) for whose in self._read(page))])
            self._count(hook, number)
        return len(at_once) > _PAGES_AT_ONCE

    def write(self) -> None:
        for hook, new in self._new.items():
            last = max(0, self._pages.get(hook, 0) - 1)
            its = [*self._read(_page(hook, last)), *new]
            pages = [its[at : at + _PAGE_MAX] for at in range(0, len(its), _PAGE_MAX)]
            self._states.put(
                {_page(hook, last + n): orjson.dumps(page) for n, page in enumerate(pages)}
            )
            self._count(hook, last + len(pages))
        self._states.put({key: self._known[key].encode() for key in self._changed})
        self._known, self._changed, self._new = {}, set(), defaultdict(list)

    def _read(self, page: Key) -> list[str]:
        return list(orjson.loads(self._states.get([page])[0] or b"[]"))

    def _count(self, hook: str, pages: int) -> None:
        self._pages[hook] = pages
        if not pages:
            del self._pages[hook]
        if self._pages:
            self._states.put({_PAGES: orjson.dumps(self._pages)})
        else:
            self._states.remove([_PAGES])


def _page(hook: str, number: int) -> Key:
    return (f"{hook}{BETWEEN}{BETWEEN}{number}",)


class KeptDeliveries:
    """What is new and gone within a batch is never written."""

    def __init__(self, states: Share) -> None:
        self._states = states
        self._new: dict[Key, Delivery] = {}
        self._known: dict[Key, Delivery] = {}
        self._gone: list[Key] = []

    def put(self, line: str, number: int, delivery: Delivery) -> None:
        self._new[line, str(number)] = delivery

    def get(self, wanted: Mapping[str, Iterable[int]]) -> dict[str, list[tuple[int, Delivery]]]:
        """The deliveries of each line with these numbers, in this order."""
        numbers = {line: list(its) for line, its in wanted.items()}
        keys = [(line, str(number)) for line, its in numbers.items() for number in its]
        unknown = [key for key in keys if key not in self._new and key not in self._known]
        for key, raw in zip(unknown, self._states.get(unknown), strict=True):
            if raw is not None:
                self._known[key] = Delivery.unpack(raw)
        return {
            line: [(number, self._found((line, str(number)))) for number in its]
            for line, its in numbers.items()
        }

    def _found(self, key: Key) -> Delivery:
        return self._new.get(key) or self._known[key]

    def remove(self, line: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            key = line, str(number)
            if self._new.pop(key, None) is None:
                self._known.pop(key, None)
                self._gone.append(key)

    def write(self) -> None:
        self._states.remove(self._gone)
        self._states.put({key: delivery.pack() for key, delivery in self._new.items()})
        self._new, self._known, self._gone = {}, {}, []


class Kept(NamedTuple):
    """All of a bucket."""

    lines: KeptLines
    deliveries: KeptDeliveries
    sent: KeptSent

    @classmethod
    def of(cls, states: States) -> Self:
        one = states.of("kept", "kind", "key")
        return cls(
            KeptLines(Share(one, "line")),
            KeptDeliveries(Share(one, "delivery")),
            KeptSent(Share(one, "sent")),
        )

    def write(self, waiting: Waiting) -> None:
        """What a batch has changed."""
        self.lines.write(waiting)
        self.deliveries.write()
        self.sent.write()
