"""Faults that have one cause each, how to plant and to heal them, and which checks of /health have
to name them. What is expected is written down here by hand: the product's own rules of what follows
from what are not asked."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx

from local_stack.run.take_down import hold, release
from tests.faults.proxy import Way
from tests.faults.whole.faults import PARTS, _limit_files
from tests.faults.whole.rig import Rig, signal_all, tree

Step = Callable[[Rig], Awaitable[None]]


class Cause(NamedTuple):
    name: str
    plant: Step
    heal: Step
    named: frozenset[str]


def _away(name: str) -> tuple[Step, Step]:
    async def plant(rig: Rig) -> None:
        await asyncio.to_thread(hold, rig.state_dir, name)

    async def heal(rig: Rig) -> None:
        await asyncio.to_thread(release, rig.state_dir, name)

    return plant, heal


def _frozen(part: str) -> tuple[Step, Step]:
    frozen: list[int] = []

    async def plant(rig: Rig) -> None:
        frozen[:] = tree(await rig.pid(PARTS[part]))
        signal_all(frozen, signal.SIGSTOP)

    async def heal(_: Rig) -> None:
        signal_all(frozen, signal.SIGCONT)

    return plant, heal


def _way(door: str, way: Way) -> tuple[Step, Step]:
    async def plant(rig: Rig) -> None:
        rig.proxies[door].way = way

    async def heal(rig: Rig) -> None:
        rig.proxies[door].way = "pass"

    return plant, heal


def _disk_full(part: str) -> tuple[Step, Step]:
    before: list[tuple[int, tuple[int, int]]] = []

    async def plant(rig: Rig) -> None:
        pid = await rig.pid(PARTS[part])
        limit = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        before[:] = [(pid, limit)]
        _limit_files(pid, (0, limit[1]))

    async def heal(_: Rig) -> None:
        for pid, limit in before:
            _limit_files(pid, limit)

    return plant, heal


async def _nothing(_: Rig) -> None:
    pass


async def _post(rig: Rig, device: str, body: bytes, times: int = 20) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(times):
            await http.post(f"{rig.launcher.gateway_url}/v1/telemetry/{device}", content=body)


async def _order(rig: Rig, job: str, what: str) -> None:
    url = f"{rig.launcher.status()['desk_url']}/api/jobs/{job}/{what}"
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        (await http.post(url, json={"reason": "the disk is changed"})).raise_for_status()


def _paused(job: str) -> tuple[Step, Step]:
    async def plant(rig: Rig) -> None:
        await _order(rig, job, "pause")

    async def heal(rig: Rig) -> None:
        await _order(rig, job, "resume")

    return plant, heal


async def _poison(rig: Rig) -> None:
    await _post(rig, "device-0007", b'{"value": 1,5}')


async def _discard(rig: Rig) -> None:
    url = f"{rig.launcher.status()['desk_url']}/api/letters/discard"
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        (await http.post(url, json={"status": "parked", "reason": "a test"})).raise_for_status()


async def _stranger(rig: Rig) -> None:
    await _post(rig, "stranger-1", b'{"value": 1}', 3)


def _cause(name: str, steps: tuple[Step, Step], *named: str) -> Cause:
    return Cause(name, *steps, frozenset(named))


JOBS = [f"job:{name}" for name in ("enrich", "retry", "fold", "aggregate", "persist", "forward")]
KAFKA, POSTGRES = "kafka:connection", "postgres:connection"
CAUSES = [
    _cause("Kafka away", _away("kafka"), KAFKA),
    _cause("PostgreSQL away", _away("postgres"), POSTGRES),
    _cause("Spark away", _away("spark"), *JOBS),
    _cause("Kafka frozen", _frozen("Kafka"), KAFKA),
    _cause("PostgreSQL frozen", _frozen("PostgreSQL"), POSTGRES),
    _cause("Spark's driver frozen", _frozen("Spark's driver"), *JOBS),
    _cause("Spark's JVM frozen", _frozen("Spark's JVM"), *JOBS),
    _cause("the view's writer frozen", _frozen("view writer"), "state_view:lag"),
    _cause("relay frozen", _frozen("relay"), "job:relay"),
    _cause("gateway frozen", _frozen("gateway"), "no answer"),
    _cause("gateway cut off from Kafka", _way("gateway", "stall"), KAFKA),
    _cause("jobs cut off from Kafka", _way("jobs", "stall"), *JOBS, "job:relay"),
    _cause("all cut off from PostgreSQL", _way("postgres", "stall"), POSTGRES),
    _cause("Kafka's disk full", _disk_full("Kafka"), KAFKA),
    _cause("PostgreSQL's disk full", _disk_full("PostgreSQL"), "breaker:persist:postgres"),
    _cause("persist paused", _paused("persist"), "job:persist"),
    _cause("fold paused", _paused("fold"), "job:fold"),
    _cause("payloads that are no JSON", (_poison, _discard), "letters:parked"),
]
