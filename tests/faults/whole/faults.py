"""What happens to the stack. Each fault returns when it is over; what it broke may still be coming
back, which is when the next one may happen."""

import asyncio
import functools
import json
import random
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg

from local_stack.run.take_down import hold, release
from local_stack.servers.gateways import names_of
from local_stack.servers.postgres_address import SUPERUSER
from tests.end_to_end.launcher import Launcher, descendants, parents_of_all
from tests.faults.proxy import Way
from tests.faults.whole import flips
from tests.faults.whole.rig import DOORS, Rig, signal_all, tree

Fault = Callable[[Rig, random.Random], Awaitable[None]]
Find = Callable[[Launcher], int | None]
_FIRED_WITHIN_S = 60.0


def service(name: str) -> Find:
    return lambda launcher: launcher.service_pid(name)


def _child_of(name: str, words: str) -> Find:
    def find(launcher: Launcher) -> int | None:
        pid = launcher.service_pid(name)
        children = descendants(pid) if pid else {}
        return next((child for child, command in children.items() if words in command), None)

    return find


def _worker_of_spark(launcher: Launcher) -> int | None:
    """One that a daemon of Spark's has forked, not the daemon: whose workers stay in service."""
    pid = launcher.service_pid("spark")
    python = {
        p
        for p, said in (descendants(pid) if pid else {}).items()
        if "\0-m\0stream_jobs.supervision.worker_daemon\0" in said
    }
    parents = parents_of_all()
    return next((p for p in python if parents.get(p) in python), None)


PARTS: dict[str, Find] = {
    "gateway": service("gateway"),
    "view writer": _child_of("gateway", "gateway.state_view.writer"),
    "relay": service("relay"),
    "Spark's driver": service("spark"),
    "Spark's JVM": _child_of("spark", "org.apache.spark"),
    "a Python worker": _worker_of_spark,
    "a planner of batches": _child_of("spark", "python_streaming_source_runner"),
    "PostgreSQL": service("postgres"),
    "Kafka": service("kafka"),
}
WORKERS_POINTS = (
    "enrich, in a batch",
    "enrich, written and not noted",
    "retry, after a bucket",
    "fold, after a bucket",
    "aggregate, in a batch",
    "persist, not committed",
    "persist, committed",
)
POINTS = (
    *WORKERS_POINTS,
    "gateway, acknowledged and not answered",
    "view writer, read",
    "progress untold",
    "relay, sent and not removed",
)
SPOOL_POINTS = ("gateway, about to spool", "gateway, drained and not marked")
WAYS: tuple[Way, ...] = ("slow", "stall", "trickle")
JOBS = flips.JOBS


async def killed(find: Find, rig: Rig, _chance: random.Random) -> None:
    pid = await rig.pid(find)
    signal_all([pid], signal.SIGKILL)
    await rig.until(lambda: find(rig.launcher) not in (None, pid), "a killed part is back")


async def _launcher_killed(rig: Rig, _chance: random.Random) -> None:
    ports = rig.launcher.status()["ports"]
    await asyncio.to_thread(rig.launcher.kill)
    await rig.start()
    now = rig.launcher.status()["ports"]
    anew = dict.fromkeys(("controller", "spark-master"), 0)
    if rig.gateways > 1:  # of the balancer's port no word: that is the one which clients know
        anew |= dict.fromkeys(names_of(rig.gateways), 0)
    assert now | anew == ports | anew, "a server still had its port"


async def frozen(find: Find, rig: Rig, chance: random.Random) -> None:
    pids = tree(await rig.pid(find))
    signal_all(pids, signal.SIGSTOP)
    await asyncio.sleep(chance.uniform(0.5, 6))
    signal_all(pids, signal.SIGCONT)


async def _away(name: str, rig: Rig, chance: random.Random) -> None:
    await asyncio.to_thread(hold, rig.state_dir, name)
    await asyncio.sleep(rig.away_s or chance.uniform(2, 12))
    await asyncio.to_thread(release, rig.state_dir, name)


async def _sessions_ended(rig: Rig, _chance: random.Random) -> None:
    """Whatever their transactions are in the middle of."""
    query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name LIKE 'headrace-%'"""
    await rig.until(lambda: _answer(rig, query), "PostgreSQL has sessions to be ended")


def _answer(rig: Rig, query: str) -> object:
    try:
        return rig.rows(query, role=SUPERUSER)  # no other role may end sessions of all
    except psycopg.OperationalError:
        return None


async def _on_a_bad_way(door: str, way: Way, rig: Rig, chance: random.Random) -> None:
    rig.proxies[door].way = way
    await asyncio.sleep(chance.uniform(1, 6))
    rig.proxies[door].way = "pass"


async def _connections_cut(door: str, whole: bool, rig: Rig, chance: random.Random) -> None:
    proxy = rig.proxies[door]
    before, deadline_s = proxy.cut, time.monotonic() + _FIRED_WITHIN_S
    times = chance.randint(1, 5)
    while times > 0:
        assert time.monotonic() < deadline_s, f"no connection of {door} was there to be cut"
        cut = proxy.cut
        proxy.reset() if whole else proxy.close_half()
        times -= proxy.cut > cut
        await asyncio.sleep(chance.uniform(0, 0.6))
    assert proxy.cut > before


async def _dead_at(point: str, rig: Rig, _chance: random.Random) -> None:
    armed = rig.points / point
    armed.touch()
    await _fired(rig, armed)


async def _dead_at_the_spool(point: str, rig: Rig, chance: random.Random) -> None:
    proxy, armed = rig.proxies["gateway"], rig.points / point
    proxy.way = "stall"
    await asyncio.sleep(chance.uniform(6, 8))  # it gives Kafka 5 s
    armed.touch()
    if point == SPOOL_POINTS[0]:
        await _fired(rig, armed)
    proxy.way = "pass"
    await _fired(rig, armed)


async def _fired(rig: Rig, armed: Path) -> None:
    await rig.until(lambda: not armed.exists(), f"somebody comes to: {armed.name}")


async def _dead_between_batch_and_commit(job: str, rig: Rig, chance: random.Random) -> None:
    """The sink has it, or a part of it; the checkpoint does not know."""
    checkpoint = rig.state_dir / "checkpoints" / job
    deadline_s = time.monotonic() + _FIRED_WITHIN_S
    while True:
        assert time.monotonic() < deadline_s, f"{job} was never seen in a batch"
        pid = await rig.pid(PARTS["Spark's JVM"])
        if _last(checkpoint / "offsets") > _last(checkpoint / "commits"):
            await asyncio.sleep(chance.uniform(0, 0.3))
            if _last(checkpoint / "offsets") > _last(checkpoint / "commits"):
                break
        await asyncio.sleep(0.005)
    signal_all([pid], signal.SIGKILL)
    find = PARTS["Spark's JVM"]
    await rig.until(lambda: find(rig.launcher) not in (None, pid), "a killed part is back")


def _last(folder: Path) -> int:
    return max((int(p.name) for p in folder.glob("[0-9]*") if p.name.isdecimal()), default=-1)


async def _no_room_on_the_disk(find: Find, rig: Rig, chance: random.Random) -> None:
    """No file of it grows any more: to it that is a disk that takes nothing."""
    pid = await rig.pid(find)
    no_limit = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    limit_files(pid, (0, no_limit[1]))
    await asyncio.sleep(chance.uniform(1, 5))
    limit_files(pid, no_limit)


def limit_files(pid: int, limit: tuple[int, int]) -> None:
    for each in tree(pid):
        try:
            resource.prlimit(each, resource.RLIMIT_FSIZE, limit)
        except (ProcessLookupError, PermissionError):  # it has just ended
            continue


async def _newest_commit_gone(job: str, rig: Rig, _chance: random.Random) -> None:
    """As if the batch had not been noted as done: it is run again."""
    checkpoint = rig.state_dir / "checkpoints" / job
    await rig.until(lambda: _last(checkpoint / "commits") >= 0, f"{job} has done a batch")
    await rig.hold_spark()
    newest = _last(checkpoint / "commits")
    if newest == _last(checkpoint / "offsets"):  # else it was killed before it noted it
        (checkpoint / "commits" / str(newest)).unlink()
        (checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    await rig.release_spark()


async def _checkpoint_gone(job: str, rig: Rig, _chance: random.Random) -> None:
    await rig.remove_checkpoint(job)


async def _byte_flipped(rig: Rig, chance: random.Random) -> None:
    """The job must stop by name, until somebody has taken its checkpoint away."""
    await flip_a_byte_of_fold(rig, chance)
    await _checkpoint_gone("fold", rig, chance)


async def flip_a_byte_of_fold(rig: Rig, chance: random.Random) -> None:
    """In what its state was at its last commit."""
    checkpoint = rig.state_dir / "checkpoints" / "fold"
    await rig.until(lambda: _last(checkpoint / "commits") >= 0, "fold has done a batch")
    await rig.hold_spark()
    newest = _last(checkpoint / "commits")
    noted = json.loads((checkpoint / "commits" / str(newest)).read_text().partition("\n")[2])
    partition, (name, *_) = chance.choice(list(enumerate(noted["stateUniqueIds"]["0"])))
    store = checkpoint / "state" / "0" / str(partition)
    # its changes, and where there is one the whole of it: from one of them alone Spark would go on
    for damaged in store.glob(f"{newest + 1}_{name}.*[pg]"):
        raw = bytearray(damaged.read_bytes())
        raw[len(raw) // 2] ^= 1 << chance.randrange(8)
        damaged.write_bytes(raw)
    await rig.release_spark()
    named = "failed: CANNOT_LOAD_STATE_STORE"
    await rig.until(lambda: rig.job_output("fold").startswith(named), f"fold is {named}")


async def _fold_has_begun(rig: Rig) -> None:
    """Before that it has nothing to lose: Spark's first batch may be an empty one."""
    commits = rig.state_dir / "checkpoints" / "fold" / "commits"
    await rig.until(lambda: any(commits.glob("[1-9]*")), "fold begins")


async def _state_partitions_changed(rig: Rig, chance: random.Random) -> None:
    """Which Spark keeps for a checkpoint's whole life."""
    await _fold_has_begun(rig)
    name = "HEADRACE_STATE_PARTITIONS"
    others = {"2", "3", "5"} - {rig.launcher.more.get(name, "2")}
    rig.launcher.more[name] = chance.choice(sorted(others))
    rig.mark_spark_log()
    await _launcher_killed(rig, chance)
    await rig.until(lambda: rig.spark_has_said("STATE_PARTITIONS_CHANGED"), "fold says so")


async def _fold_changed(rig: Rig, _chance: random.Random) -> None:
    """To another one that gives the same: all events are folded anew."""
    await _fold_has_begun(rig)
    await rig.hold_spark()
    rig.change_fold()
    await rig.release_spark()
    await rig.until(lambda: rig.spark_has_said("FOLD_CHANGED"), "fold says so")


def _kinds() -> dict[str, Fault]:
    kinds: dict[str, Fault] = {}
    for name, find in PARTS.items():
        kinds[f"{name} killed"] = functools.partial(killed, find)
        kinds[f"{name} frozen"] = functools.partial(frozen, find)
    kinds["launcher killed"] = _launcher_killed
    for name in ("kafka", "postgres", "spark"):
        kinds[f"{name} away"] = functools.partial(_away, name)
    kinds["sessions of PostgreSQL ended"] = _sessions_ended
    for door in DOORS:
        for way in WAYS:
            kinds[f"way {door}: {way}"] = functools.partial(_on_a_bad_way, door, way)
        kinds[f"way {door}: reset"] = functools.partial(_connections_cut, door, True)
        kinds[f"way {door}: half-closed"] = functools.partial(_connections_cut, door, False)
    for point in POINTS:
        kinds[f"dead at: {point}"] = functools.partial(_dead_at, point)
    for point in SPOOL_POINTS:
        kinds[f"dead at: {point}"] = functools.partial(_dead_at_the_spool, point)
    for job in JOBS:
        fault = functools.partial(_dead_between_batch_and_commit, job)
        kinds[f"dead between batch and commit of {job}"] = fault
        kinds[f"newest commit of {job} gone"] = functools.partial(_newest_commit_gone, job)
        kinds[f"checkpoint of {job} gone"] = functools.partial(_checkpoint_gone, job)
    for name in ("gateway", "Spark's JVM", "PostgreSQL", "Kafka"):
        kinds[f"{name}: disk full"] = functools.partial(_no_room_on_the_disk, PARTS[name])
    kinds["a byte of fold's state flipped"] = _byte_flipped
    kinds["state partitions changed"] = _state_partitions_changed
    kinds["fold changed"] = _fold_changed
    return kinds | flips.kinds()


KINDS = _kinds()


def plan(chance: random.Random, count: int, kinds: list[str] | None = None) -> list[str]:
    """Every kind comes before one comes again."""
    names: list[str] = []
    while len(names) < count:
        names += chance.sample(kinds or list(KINDS), len(kinds or KINDS))
    return names[:count]
