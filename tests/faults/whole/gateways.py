"""What happens to one of several gateways, and to the balancer before them, where the rig's stack
has them (`--gateways`)."""

import asyncio
import functools
import random
import signal

from local_stack.servers.gateways import BALANCER, names_of
from tests.faults.whole.callers import ANSWER_S
from tests.faults.whole.faults import Fault, killed, service
from tests.faults.whole.rig import Rig, signal_all, tree

_BEYOND_S = (1.0, 5.0)


async def _one_killed(rig: Rig, chance: random.Random) -> None:
    await killed(service(chance.choice(names_of(rig.gateways))), rig, chance)


async def _one_frozen(rig: Rig, chance: random.Random) -> None:
    """For longer than clients wait: they come again, and the balancer may send them elsewhere."""
    pids = tree(await rig.pid(service(chance.choice(names_of(rig.gateways)))))
    signal_all(pids, signal.SIGSTOP)
    try:
        await asyncio.sleep(ANSWER_S + chance.uniform(*_BEYOND_S))
    finally:
        signal_all(pids, signal.SIGCONT)


GATEWAY_KINDS: dict[str, Fault] = {
    "one of several gateways killed": _one_killed,
    "one of several gateways frozen": _one_frozen,
    "the balancer killed": functools.partial(killed, service(BALANCER)),
}
