"""People who change master data meanwhile: a device's next reading counts for another area."""

import asyncio
import contextlib
import random

import psycopg

from tests.faults.whole.fleet import DEVICES
from tests.faults.whole.rig import Rig

AREAS = [f"area-{number:02}" for number in range(1, 6)]
_MOVE = "UPDATE headrace.device SET area = %s WHERE id = %s RETURNING id"


async def move_devices(rig: Rig, seed: int) -> None:
    """Until it is cancelled."""
    chance = random.Random(f"movers {seed}")
    while True:
        await asyncio.sleep(chance.uniform(0.1, 2))
        with contextlib.suppress(psycopg.OperationalError):  # it is hurt: this one does not move
            await asyncio.to_thread(rig.rows, _MOVE, chance.choice(AREAS), chance.choice(DEVICES))
