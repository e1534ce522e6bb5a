"""Faults that have one cause each, how to plant and to heal them, and which checks of /health have
to name them. What is expected is written down here by hand: the product's own rules of what follows
from what are not asked."""

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx

from local_stack.run.take_down import hold, release
from tests.faults.proxy import Way
from tests.faults.whole.faults import PARTS, flip_a_byte_of_fold, limit_files
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
        limit_files(pid, (0, limit[1]))

    async def heal(_: Rig) -> None:
        for pid, limit in before:
            limit_files(pid, limit)

    return plant, heal


async def _post(rig: Rig, device: str, body: bytes, times: int = 20) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(times):
            await http.post(f"{rig.launcher.gateway_url}/v1/telemetry/{device}", content=body)


async def _tell_desk(rig: Rig, method: str, path: str, told: object = None) -> None:
    url = f"{rig.launcher.status()['desk_url']}/api/{path}"
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        (await http.request(method, url, json=told)).raise_for_status()


def _paused(job: str) -> tuple[Step, Step]:
    async def plant(rig: Rig) -> None:
        await _tell_desk(rig, "POST", f"jobs/{job}/pause", {"why": "the disk is changed"})

    async def heal(rig: Rig) -> None:
        await _tell_desk(rig, "POST", f"jobs/{job}/resume")

    return plant, heal


async def _poison(rig: Rig) -> None:
    await _post(rig, "device-0007", b'{"value": 1,5}')


async def _discard(rig: Rig) -> None:
    await _tell_desk(rig, "POST", "discards", {"everything": True, "reason": "a test"})


async def _strangers(rig: Rig) -> None:
    await _post(rig, "stranger-1", b'{"value": 1}', 3)


async def _given_up(rig: Rig) -> None:
    await _tell_desk(rig, "POST", "waiting", {"order": "give_up", "entities": ["stranger-1"]})
    await rig.until(lambda: _letters(rig), "what was given up is parked")
    await _discard(rig)


def _letters(rig: Rig) -> object:
    return rig.rows("SELECT 1 FROM headrace.letter WHERE status = 'parked'")


async def _flipped(rig: Rig) -> None:
    await flip_a_byte_of_fold(rig, random.Random())


async def _made_anew(rig: Rig) -> None:
    await rig.remove_checkpoint("fold")


def _gone() -> tuple[Step, Step]:
    """A webhook whose server says that it is no more."""
    servers: list[asyncio.Server] = []
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()
        asked.set()

    async def plant(rig: Rig) -> None:
        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        port = servers[-1].sockets[0].getsockname()[1]
        hook = {"url": f"http://127.0.0.1:{port}/", "types": ["reading"]}
        await _tell_desk(rig, "PUT", "hooks/gone", hook)
        await asked.wait()

    async def heal(rig: Rig) -> None:
        await _tell_desk(rig, "DELETE", "hooks/gone")
        await _discard(rig)
        servers.pop().close()

    return plant, heal


def _cause(name: str, steps: tuple[Step, Step], *named: str) -> Cause:
    return Cause(name, *steps, frozenset(named))


JOBS = {f"job:{name}" for name in ("enrich", "retry", "fold", "aggregate", "persist", "forward")}
KAFKA, POSTGRES = "kafka:connection", "postgres:connection"
CAUSES = [
    _cause("Kafka away", _away("kafka"), KAFKA),
    _cause("PostgreSQL away", _away("postgres"), POSTGRES),
    _cause("Spark away", _away("spark"), *JOBS),
    _cause("Kafka frozen", _frozen("Kafka"), KAFKA),
    _cause("PostgreSQL frozen", _frozen("PostgreSQL"), POSTGRES),
    _cause("Spark's driver frozen", _frozen("Spark's driver"), *JOBS),
    # without a webhook forward has nothing to ask it for
    _cause("Spark's JVM frozen", _frozen("Spark's JVM"), *(JOBS - {"job:forward"})),
    _cause("the view's writer frozen", _frozen("view writer"), "state_view:lag"),
    _cause("relay frozen", _frozen("relay"), "job:relay"),
    _cause("gateway frozen", _frozen("gateway"), "no answer"),
    _cause("gateway cut off from Kafka", _way("gateway", "stall"), KAFKA),
    # the desk has the same way, and counts the letters
    _cause("jobs cut off from Kafka", _way("jobs", "stall"), *JOBS, "job:relay", "letters:parked"),
    _cause("all cut off from PostgreSQL", _way("postgres", "stall"), POSTGRES),
    _cause("Kafka's disk full", _disk_full("Kafka"), KAFKA),
    _cause("persist paused", _paused("persist"), "job:persist"),
    _cause("fold paused", _paused("fold"), "job:fold"),
    _cause("payloads that are no JSON", (_poison, _discard), "letters:parked"),
    _cause("devices that nobody has registered", (_strangers, _given_up), "lane:retry.enrich.v1"),
    # what it refused is parked
    _cause("a webhook's server is gone", _gone(), "job:forward", "letters:parked"),
    _cause("a byte of fold's state flipped", (_flipped, _made_anew), "job:fold"),
]
