"""What happens to a Spark cluster, where the rig's stack has one (`--workers`)."""

import asyncio
import functools
import random

from local_stack.run.take_down import hold, release
from tests.end_to_end.launcher import Launcher, descendants, parents_of_all
from tests.faults.whole import cut_network, flips
from tests.faults.whole.faults import PARTS, Fault, Find, frozen, killed, service
from tests.faults.whole.rig import Rig, tree

_DAEMON = "stream_jobs.supervision.worker_daemon"


def _executor(launcher: Launcher) -> int | None:
    for worker in ("spark-worker-1", "spark-worker-2"):
        pid = launcher.service_pid(worker)
        for child, command in (descendants(pid) if pid else {}).items():
            if "executor.CoarseGrainedExecutorBackend" in command:
                return child
    return None


def _forked_worker(launcher: Launcher) -> int | None:
    """Not the daemon that has forked it: whose workers stay in service."""
    parents = parents_of_all()
    for worker in ("spark-worker-1", "spark-worker-2"):
        pid = launcher.service_pid(worker)
        children = descendants(pid) if pid else {}
        daemons = {p for p, said in children.items() if _DAEMON in said and "java" not in said}
        for child in daemons:
            if parents.get(child) in daemons:
                return child
    return None


_PARTS: dict[str, Find] = {
    "an executor": _executor,
    "a Python worker of an executor": _forked_worker,
    "a worker of the cluster": service("spark-worker-2"),
    "the master": service("spark-master"),
}


async def _worker_removed_and_added(rig: Rig, chance: random.Random) -> None:
    """Nobody needs it: what it had to do is done by the other one, and later it gets work again."""
    await asyncio.to_thread(hold, rig.state_dir, "spark-worker-2")
    await asyncio.sleep(chance.uniform(5, 15))
    await asyncio.to_thread(release, rig.state_dir, "spark-worker-2")


async def _cut_off(find: Find, rig: Rig, chance: random.Random) -> None:
    """From all others that have come to it; none of its own connections end."""
    cut_network.cut(cut_network.open_to_others(tree(await rig.pid(find))))
    await asyncio.sleep(chance.uniform(2, 15))
    cut_network.mend()


async def _store_away(rig: Rig, chance: random.Random) -> None:
    assert rig.store is not None
    rig.store.kill()
    await asyncio.sleep(chance.uniform(2, 12))
    await asyncio.to_thread(rig.store.start)


CLUSTER_KINDS: dict[str, Fault] = {
    "a worker of the cluster removed and added": _worker_removed_and_added,
    **{f"{name} killed": functools.partial(killed, find) for name, find in _PARTS.items()},
    **{f"{name} frozen": functools.partial(frozen, find) for name, find in _PARTS.items()},
}
CUT_KINDS: dict[str, Fault] = {
    "the driver and its executors cut off from each other": functools.partial(
        _cut_off, PARTS["Spark's JVM"]
    ),
    "the master cut off": functools.partial(_cut_off, service("spark-master")),
}
STORE_KINDS: dict[str, Fault] = {"store of checkpoints away": _store_away}
# on a cluster enrich does not stay at its logs, so it notes nothing ahead of its batches; and the
# driver has no workers of its own
NEVER_THERE = (
    "dead at: enrich, written and not noted",
    *("a Python worker killed", "a Python worker frozen"),
)
# which go to the folder that the checkpoints are in
WITHOUT_STORE = (
    *("dead between batch and commit of", "newest commit of", "checkpoint of"),
    *("a byte of fold's state", "state partitions changed", "fold changed"),
    *flips.OF_JOBS,
)
