"""How long whoever has much to do for streams keeps the loop to itself: a POST waits for it several
times, so each has to be short."""

import asyncio
import time

_HAD_MAX_S = 0.0005


class LoopShare:
    def __init__(self) -> None:
        self._until_s = time.perf_counter() + _HAD_MAX_S

    def is_used_up(self) -> bool:
        return time.perf_counter() >= self._until_s

    async def give_back(self) -> None:
        await asyncio.sleep(0)
        self._until_s = time.perf_counter() + _HAD_MAX_S
