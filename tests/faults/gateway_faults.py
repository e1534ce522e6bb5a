"""What happens to the gateway and its broker. Each returns when it is over and healed."""

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable

from tests.faults.proxy import Way
from tests.faults.rig import Rig

Fault = Callable[[Rig, random.Random], Awaitable[None]]


async def broker_killed(rig: Rig, chance: random.Random) -> None:
    await _without_broker(rig, signal.SIGKILL, chance.uniform(0.2, 4))


async def broker_restarted(rig: Rig, chance: random.Random) -> None:
    await _without_broker(rig, signal.SIGTERM, chance.uniform(0.0, 2))


async def broker_frozen(rig: Rig, chance: random.Random) -> None:
    rig.broker.send_signal(signal.SIGSTOP)
    await asyncio.sleep(chance.uniform(0.3, 5))
    rig.broker.send_signal(signal.SIGCONT)


async def way_to_broker_slow(rig: Rig, chance: random.Random) -> None:
    await _on_a_bad_way(rig, "slow", chance.uniform(1, 4))


async def way_to_broker_stalled(rig: Rig, chance: random.Random) -> None:
    await _on_a_bad_way(rig, "stall", chance.uniform(0.5, 5))


async def way_to_broker_trickles(rig: Rig, chance: random.Random) -> None:
    await _on_a_bad_way(rig, "trickle", chance.uniform(1, 3))


async def connections_reset(rig: Rig, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 5)):
        rig.proxy.reset()
        await asyncio.sleep(chance.uniform(0, 0.4))


async def connections_half_closed(rig: Rig, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        rig.proxy.close_half()
        await asyncio.sleep(chance.uniform(0, 0.4))


async def gateway_killed(rig: Rig, chance: random.Random) -> None:
    await rig.end_gateway(signal.SIGKILL)
    await asyncio.sleep(chance.uniform(0, 0.5))
    await rig.start_gateway()


async def gateway_restarted(rig: Rig, _chance: random.Random) -> None:
    await rig.end_gateway(signal.SIGTERM)
    await rig.start_gateway()


async def gateway_frozen(rig: Rig, chance: random.Random) -> None:
    rig.gateway.send_signal(signal.SIGSTOP)
    await asyncio.sleep(chance.uniform(0.3, 4))
    rig.gateway.send_signal(signal.SIGCONT)


async def gateway_killed_while_it_spools(rig: Rig, chance: random.Random) -> None:
    rig.proxy.way = "stall"
    await asyncio.sleep(chance.uniform(1.5, 3))
    await gateway_killed(rig, chance)
    await asyncio.sleep(chance.uniform(0, 1))
    rig.proxy.way = "pass"


async def gateway_killed_in_a_write(rig: Rig, chance: random.Random) -> None:
    """As if it had died between two sectors: the spool ends with a part of a frame."""
    rig.proxy.way = "stall"
    await asyncio.sleep(chance.uniform(1.5, 3))
    await rig.end_gateway(signal.SIGKILL)
    segments = sorted((rig.state_dir / "spool").glob("topics/*/*.frames"))
    if segments:
        with segments[-1].open("ab") as segment:
            segment.write(chance.randbytes(chance.randint(1, 900)))
    await rig.start_gateway()
    rig.proxy.way = "pass"


async def spool_disk_full(rig: Rig, chance: random.Random) -> None:
    """No file of the gateway grows any more: to it that is a disk that takes nothing."""
    rig.proxy.way = "stall"
    await asyncio.sleep(chance.uniform(0.5, 2))
    no_limit = resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE, (0, no_limit[1]))
    await asyncio.sleep(chance.uniform(1, 3))
    resource.prlimit(rig.gateway.pid, resource.RLIMIT_FSIZE, no_limit)
    await asyncio.sleep(chance.uniform(0, 1))
    rig.proxy.way = "pass"


async def _on_a_bad_way(rig: Rig, way: Way, for_s: float) -> None:
    rig.proxy.way = way
    await asyncio.sleep(for_s)
    rig.proxy.way = "pass"


async def _without_broker(rig: Rig, number: int, for_s: float) -> None:
    await asyncio.to_thread(rig.broker.end, number)
    await asyncio.sleep(for_s)
    rig.broker.start()
    await rig.until(rig.broker.answers, 60)


KINDS: tuple[Fault, ...] = (
    broker_killed,
    broker_restarted,
    broker_frozen,
    way_to_broker_slow,
    way_to_broker_stalled,
    way_to_broker_trickles,
    connections_reset,
    connections_half_closed,
    gateway_killed,
    gateway_restarted,
    gateway_frozen,
    gateway_killed_while_it_spools,
    gateway_killed_in_a_write,
    spool_disk_full,
)


def plan(chance: random.Random, count: int) -> list[Fault]:
    """Every kind comes before one comes again."""
    faults: list[Fault] = []
    while len(faults) < count:
        faults += chance.sample(KINDS, len(KINDS))
    return faults[:count]
