"""People who change master data meanwhile: a device's next reading counts for another area, and one
that has sent before anybody knew it is registered."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

import psycopg

from tests.faults.whole.fleet import DEVICES, LATE_DEVICES
from tests.faults.whole.rig import Rig

AREAS = [f"area-{number:02}" for number in range(1, 6)]
_MOVE = "UPDATE headrace.device SET area = %s WHERE id = %s RETURNING id"
_REGISTER = """
    INSERT INTO headrace.device (id, area, model)
    SELECT id, 'area-01', 'thermo-c' FROM unnest(%s::text[]) AS late (id)
    ON CONFLICT DO NOTHING RETURNING id
"""


async def move_devices(rig: Rig, seed: int) -> None:
    """Until it is cancelled."""
    chance = random.Random(f"movers {seed}")
    while True:
        await asyncio.sleep(chance.uniform(0.1, 2))
        with contextlib.suppress(psycopg.OperationalError):  # it is hurt: this one does not move
            await asyncio.to_thread(rig.rows, _MOVE, chance.choice(AREAS), chance.choice(DEVICES))
            if chance.random() < 0.2:
                await asyncio.to_thread(register, rig, [chance.choice(LATE_DEVICES)])


def register(rig: Rig, devices: Sequence[str]) -> None:
    rig.rows(_REGISTER, [*devices])
