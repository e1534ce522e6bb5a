"""What devices say of the time: most are right, some are ahead, drift, jump or have fallen back."""

import random
import time
from datetime import UTC, datetime, timedelta

_S, _HOUR, _DAY = 1_000, 3_600_000, 86_400_000
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = ("right", "silent", "mixed", "ahead", "fallen", "drifting", "jumping")


class Clock:
    """One device's. `kind` chooses what is wrong with it, `chance` how much and when."""

    def __init__(self, kind: str, chance: random.Random) -> None:
        assert kind in KINDS
        self._kind = kind
        self._chance = chance
        self._off_ms = chance.randint(300 * _S, _HOUR) if kind == "ahead" else 0
        self._fallen = 0  # so many messages yet until somebody sets it
        self._per_message_ms = chance.choice((-1, 1)) * chance.randint(1 * _S, 40 * _S)

    def at_ms(self, now_ms: int) -> int | None:
        """None: the payload says nothing."""
        chance = self._chance
        match self._kind:
            case "silent":
                return None
            case "mixed":
                off_ms = _mixed(chance)
                return None if off_ms is None else now_ms + off_ms
            case "fallen":
                if self._fallen == 0 and chance.random() < 0.04:
                    self._fallen = chance.randint(1, 40)
                if self._fallen:
                    self._fallen -= 1
                    return int(time.monotonic() * 1_000)  # it counts from 1970, since it was on
            case "drifting":
                self._off_ms += self._per_message_ms
            case "jumping" if chance.random() < 0.1:
                self._off_ms = chance.choice(
                    (
                        *(0, -_HOUR, -_DAY, 60 * _S, 299 * _S, 301 * _S, 10 * 60 * _S, _DAY),
                        *(-7 * _DAY + 60 * _S, -7 * _DAY - 60 * _S, -30 * _DAY, 400 * _DAY),
                    )
                )
        return now_ms + self._off_ms - chance.randint(0, 2 * _S)


def _mixed(chance: random.Random) -> int | None:
    """Now and then it is late, very late, or ahead of the time."""
    return chance.choice(
        (
            *(None,) * 4,
            *(chance.randint(-60 * _S, 0),) * 3,
            chance.randint(-2 * _DAY, -60 * _S),
            chance.randint(0, 240 * _S),
            chance.randint(300 * _S, _DAY),
        )
    )


def said(at_ms: int | None) -> dict[str, str]:
    if at_ms is None:
        return {}
    at = _1970 + timedelta(milliseconds=at_ms)
    return {"at": f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"}
