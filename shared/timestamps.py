"""RFC 3339 text and epoch milliseconds, one into the other."""

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeGuard

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# the first and the last millisecond that RFC 3339 can say
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def is_time_ms(value: object) -> TypeGuard[int]:
    """Whether it can be told as text and stored."""
    return type(value) is int and FIRST_MS <= value <= LAST_MS


def to_rfc3339(time_ms: int) -> str:
    return f"{_second(time_ms // 1000)}.{time_ms % 1000:03}Z"


@lru_cache(256)  # many records are of the same second, and this is not quick
def _second(time_s: int) -> str:
    return (_EPOCH + timedelta(seconds=time_s)).replace(tzinfo=None).isoformat()


def from_rfc3339(text: str) -> int:
    """Epoch milliseconds; ValueError where the text is no time or has no UTC offset,
    OverflowError where its offset takes it out of the years 1 to 9999."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the UTC offset is missing (write Z or +01:00)")
    return (moment.astimezone(UTC) - _EPOCH) // _MILLISECOND
