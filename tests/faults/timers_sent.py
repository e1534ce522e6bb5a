"""What the rig of the timers sends."""

import random
from typing import NamedTuple

_IN_A_ROW = 10
_TOGETHER = 500
_ALARMS = 0.1  # so many wait without order


class Timer(NamedTuple):
    entity: str
    number: int  # of its entity
    due_ms: int
    in_order: bool = True

    @property
    def id(self) -> str:
        return f"{self.entity}/{self.number}"


def drawn(count: int, begins_ms: int, lasts_ms: int, chance: random.Random) -> list[Timer]:
    """A tenth without order, many of an entity; of the others a half in rows of an entity, a third
    of which come due in another order than they came in; a quarter come due many at once."""

    def some() -> int:
        return begins_ms + chance.randrange(lasts_ms)

    timers = [
        Timer(f"alarm-{n % (count // 50 or 1)}", n, some(), in_order=False)
        for n in range(int(count * _ALARMS))
    ]
    for row in range(int(count * 0.45) // _IN_A_ROW):
        due_ms = [some() for _ in range(_IN_A_ROW)]
        if row % 3:
            due_ms.sort()
        timers += [Timer(f"row-{row}", n, at_ms) for n, at_ms in enumerate(due_ms)]
    due_ms = 0
    for n in range(int(count * 0.225)):
        due_ms = some() if n % _TOGETHER == 0 else due_ms
        timers.append(Timer(f"together-{n}", 0, due_ms))
    timers += [Timer(f"one-{n}", 0, some()) for n in range(count - len(timers))]
    # as they come: of each entity in its order
    return sorted(timers, key=lambda timer: (timer.number % _IN_A_ROW, chance.random()))
